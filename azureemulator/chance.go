// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// chance is the emulator's only source of randomness. It has its own lock, so
// that a draw never waits for the clock's lock.
type chance struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newChance(seed uint64) *chance {
	return &chance{rng: rand.New(rand.NewPCG(seed, 0x6b61727665))}
}

// draw takes a duration from d, at most six medians long: a log-normal tail
// has no end, and no test should wait for it.
func (c *chance) draw(d Distribution) time.Duration {
	c.mu.Lock()
	factor := math.Exp(c.rng.NormFloat64() * d.Sigma)
	c.mu.Unlock()
	return time.Duration(float64(d.Median) * min(factor, 6))
}

// uuid is a random (version 4) UUID.
func (c *chance) uuid() string {
	c.mu.Lock()
	hi, lo := c.rng.Uint64(), c.rng.Uint64()
	c.mu.Unlock()
	hi = hi&^0xf000 | 0x4000
	lo = lo&^(0b11<<62) | 0b10<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&0xffffffffffff)
}

// hex is n random hexadecimal digits, n at most 16.
func (c *chance) hex(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%016x", c.rng.Uint64())[:n]
}
