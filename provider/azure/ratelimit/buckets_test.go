// SPDX-License-Identifier: Apache-2.0

package ratelimit_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/provider/azure/ratelimit"
)

// Rule REQUEST-1: a thousand virtual machines need at least 80 seconds, since Resource Manager
// accepts 200 writes at once and 10 a second from then on. karve needs at most half a second
// longer, and is never refused.
func TestThousandTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seed = 7
		azure := newAzureLimits(seed)
		c := newClient(azure, 1)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				if status := c.launch(t, fmt.Sprint("vm", i), ratelimit.Create); status != http.StatusOK {
					t.Errorf("seed %d: VM %d got status %d", seed, i, status)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 80*time.Second+500*time.Millisecond {
			t.Errorf("seed %d: 1000 VMs took %v, want 80s", seed, took)
		}
		if azure.requests != 1000 || len(azure.refused) != 0 {
			t.Errorf("seed %d: %d requests, %d refused; want 1000 and none", seed, azure.requests, len(azure.refused))
		}
		r := c.RequestStats()
		if r.VMsCreated != 1000 || len(r.Counts) != 1 || r.Counts[0].LimitClass != "vm-put" || r.Counts[0].Outcome != "ok" {
			t.Errorf("counted %+v", r)
		}
	})
}

// Rule REQUEST-2: half of each burst is left to others by default, even when karve has more to
// do than fits.
func TestHalfIsLeftToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		azure := newAzureLimits(8)
		c := newClient(azure, 0)
		var wg sync.WaitGroup
		for i := range 400 {
			wg.Go(func() { c.launch(t, fmt.Sprint("vm", i), ratelimit.Create) })
		}
		wg.Wait()
		if azure.lowest["writes"] < 100 {
			t.Errorf("only %v writes were left for others, want 100", azure.lowest["writes"])
		}
	})
}

// Rule REQUEST-2: urgent requests may borrow half of what is left to others, and other requests
// wait until that has been gained back.
func TestUrgentBorrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		azure := newAzureLimits(9)
		c := newClient(azure, 0)
		start := time.Now()
		launch := func(n int, p ratelimit.Priority) time.Duration {
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() { c.launch(t, fmt.Sprint(p, "vm", i), p) })
			}
			wg.Wait()
			return time.Since(start)
		}
		if took := launch(140, ratelimit.Replace); took > time.Second {
			t.Errorf("140 replacements took %v: 100 tokens are ours, and 50 may be borrowed", took)
		}
		if took := launch(1, ratelimit.Create); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("a new VM waited until %v, want the 4 seconds in which some 40 tokens are gained back", took)
		}
		if azure.lowest["writes"] < 50 || len(azure.refused) > 0 {
			t.Errorf("%v writes were left for others, %d refused; want 50 and none", azure.lowest["writes"], len(azure.refused))
		}
	})
}

// Rule REQUEST-2: two clusters that share a limit both make progress, neither is refused, and
// neither gets less than a third of the limit.
func TestTwoClustersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		azure := newAzureLimits(9)
		var done [2]work
		var wg sync.WaitGroup
		for n := range done {
			done[n].start(t, &wg, newClient(azure, 0), 5*time.Minute)
		}
		wg.Wait()
		x, y := done[0].count(time.Hour), done[1].count(time.Hour)
		if min(x, y) < (x+y)/3 || x+y < 2800 {
			t.Errorf("the clusters made %d and %d requests in 5 minutes of 10 a second", x, y)
		}
		if n := len(azure.refused); n != 0 {
			t.Errorf("%d requests were refused", n)
		}
	})
}

// Rule REQUEST-2: another client that takes all it can get cannot starve karve.
func TestGreedyNeighbour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		azure := newAzureLimits(10)
		var wg sync.WaitGroup
		var w work
		w.start(t, &wg, newClient(azure, 0), 5*time.Minute)
		wg.Go(func() {
			for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
				for azure.others("writes", 1) {
				}
			}
		})
		wg.Wait()
		t.Logf("%d requests served, %d refused", w.count(time.Hour), len(azure.refused))
		if w.count(time.Hour) < 100 {
			t.Errorf("%d requests were served in 5 minutes", w.count(time.Hour))
		}
	})
}

// Rule REQUEST-3: when Azure allows less than its table says, karve adapts: first by the counts
// in answers, then by refusals, which become rare.
func TestLearnsCutLimit(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent=%v", silent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				azure := newAzureLimits(11)
				azure.silent = silent
				azure.cut("writes", 50, 2)
				var wg sync.WaitGroup
				var w work
				w.start(t, &wg, newClient(azure, 1), 12*time.Minute)
				start := time.Now()
				wg.Wait()
				learning := 0
				for _, at := range azure.refused {
					if at.Sub(start) < 2*time.Minute {
						learning++
					}
				}
				later, served := len(azure.refused)-learning, w.count(12*time.Minute)-w.count(2*time.Minute)
				t.Logf("%d refused while learning, then %d, %d served", learning, later, served)
				if learning > 120 || later > 40 || served < 600 {
					t.Errorf("%d refused while learning, then %d; %d served in ten minutes of 2 a second", learning, later, served)
				}
			})
		})
	}
}

// work runs a hundred workers that create one virtual machine after the other, and returns when
// each was created.
type work struct {
	mu    sync.Mutex
	began time.Time
	done  []time.Time
}

func (w *work) start(t *testing.T, wg *sync.WaitGroup, c *client, long time.Duration) {
	w.began = time.Now()
	for i := range 100 {
		wg.Go(func() {
			for k := 0; time.Since(w.began) < long; k++ {
				if c.launch(t, fmt.Sprintf("vm%d-%d", i, k), ratelimit.Create) == http.StatusOK {
					w.mu.Lock()
					w.done = append(w.done, time.Now())
					w.mu.Unlock()
				}
			}
		})
	}
}

// count returns how many were created in the first part of the time.
func (w *work) count(within time.Duration) (n int) {
	for _, at := range w.done {
		if at.Sub(w.began) < within {
			n++
		}
	}
	return n
}

// Rule REQUEST-5: deletions come before replacements, those before new nodes, and all before
// reads.
func TestUrgentOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ratelimit.New(ratelimit.Options{Share: 1})
		for i := 0; b.Ticket(fmt.Sprint("early", i), ratelimit.Delete, ratelimit.ARMReads) == 0; i++ {
		}
		b.Drop("early250", ratelimit.ARMReads)
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		asks := func(name string, p ratelimit.Priority) {
			wg.Go(func() {
				for {
					wait := b.Ticket(name, p, ratelimit.ARMReads)
					if wait == 0 {
						mu.Lock()
						defer mu.Unlock()
						order = append(order, name)
						return
					}
					time.Sleep(wait)
				}
			})
			synctest.Wait()
		}
		asks("upkeep", ratelimit.Upkeep)
		asks("read", ratelimit.Read)
		asks("create", ratelimit.Create)
		asks("create-later", ratelimit.Create)
		asks("replace", ratelimit.Replace)
		asks("stop", ratelimit.Delete)
		wg.Wait()
		if want := "[stop replace create create-later read upkeep]"; fmt.Sprint(order) != want {
			t.Errorf("served %v, want %v", order, want)
		}
	})
}

// A list that a thousand deletions wait for is not held back by the requests of those deletions.
//
// Rule REQUEST-5.
func TestListsForAllAreNotStarved(t *testing.T) {
	for _, list := range []string{"Microsoft.Compute/virtualMachines", "Microsoft.Compute/disks", "Microsoft.Network/networkInterfaces", "Microsoft.ContainerService/managedClusters/c/agentPools/p/machines"} {
		t.Run(list, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(newAzureLimits(1), 1)
				drain(c.Buckets, ratelimit.ARMReads)
				for i := range 1000 {
					c.Ticket(fmt.Sprint("ends", i), ratelimit.Delete, ratelimit.ARMReads, ratelimit.GetVM)
				}
				began := time.Now()
				if status := c.send(t, http.MethodGet, group+list); status != http.StatusOK || time.Since(began) > time.Second {
					t.Errorf("status %d after %v", status, time.Since(began))
				}
			})
		})
	}
}

func TestPlaceIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ratelimit.New(ratelimit.Options{Share: 1})
		drain(b, ratelimit.ARMWrites)
		first := b.Ticket("first", ratelimit.Create, ratelimit.ARMWrites)
		second := b.Ticket("second", ratelimit.Create, ratelimit.ARMWrites)
		if again := b.Ticket("FIRST", ratelimit.Create, ratelimit.ARMWrites); again != first || second <= first {
			t.Errorf("first waits %v and then %v, second %v", first, again, second)
		}
		time.Sleep(first)
		if w := b.Ticket("third", ratelimit.Create, ratelimit.ARMWrites); w == 0 {
			t.Error("the third took the token of the first")
		}
		if w := b.Ticket("first", ratelimit.Create, ratelimit.ARMWrites); w != 0 {
			t.Errorf("the first came back in time and waits another %v", w)
		}
		if w := b.Ticket("first", ratelimit.Create, ratelimit.ARMWrites); w != 0 {
			t.Errorf("a granted ticket waits %v when asked for again", w)
		}
		b.Drop("first", ratelimit.ARMWrites)
		if w := b.Ticket("second", ratelimit.Create, ratelimit.ARMWrites); w != 0 {
			t.Errorf("the dropped token is not free: second waits %v", w)
		}
	})
}

// No request waits forever behind claims that were deleted meanwhile.
func TestPlaceLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ratelimit.New(ratelimit.Options{Share: 1})
		drain(b, ratelimit.ARMWrites)
		for i := range 500 {
			b.Ticket(fmt.Sprint("gone", i), ratelimit.Delete, ratelimit.ARMWrites)
		}
		time.Sleep(2 * time.Minute)
		if w := b.Ticket("alive", ratelimit.Create, ratelimit.ARMWrites); w != 0 {
			t.Errorf("waits %v behind nobody", w)
		}
	})
}

// A virtual machine with too many requests delays only its own.
func TestLimitOfOneVMDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(newAzureLimits(12), 1)
		for i := range 10 {
			for range 12 {
				if status := c.launch(t, fmt.Sprint("worn", i), ratelimit.Create); status != http.StatusOK {
					t.Fatalf("status %d", status)
				}
			}
		}
		drain(c.Buckets, ratelimit.ARMWrites)
		for i := range 10 {
			if w := c.Ticket(fmt.Sprint("worn", i), ratelimit.Delete, ratelimit.ARMWrites, ratelimit.PutVM); w < 2*time.Second || w > 15*time.Second {
				t.Errorf("a VM asked for twelve times waits %v, want what is left of 15s", w)
			}
		}
		if w := c.Ticket("fresh", ratelimit.Create, ratelimit.ARMWrites, ratelimit.PutVM); w > 200*time.Millisecond {
			t.Errorf("another VM waits %v behind them, want the next token", w)
		}
	})
}

// Rule REQUEST-5: reads of a virtual machine that never stop leave its deletion, which asks every two
// seconds, the token that it waits for.
func TestReadsDoNotStarveDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(newAzureLimits(15), 1)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for ; ctx.Err() == nil; time.Sleep(time.Second) {
					if resp, err := c.do(ctx, http.MethodGet, vmURL("m")); err == nil {
						_ = resp.Body.Close()
					}
				}
			})
		}
		time.Sleep(time.Minute)
		waited := time.Now()
		for c.Ticket("m", ratelimit.Delete, ratelimit.ARMReads, ratelimit.GetVM) > 0 && time.Since(waited) < time.Hour {
			time.Sleep(2 * time.Second)
		}
		if w := time.Since(waited); w > 15*time.Second {
			t.Errorf("the deletion waited %v for a limit of 12 reads a minute", w)
		}
		stop()
		wg.Wait()
	})
}

// drain takes all tokens there are.
func drain(b *ratelimit.Buckets, c ratelimit.Class) {
	for i := 0; ; i++ {
		name := fmt.Sprint("drain", i)
		if b.Ticket(name, ratelimit.Delete, c) != 0 {
			b.Drop(name, c)
			return
		}
	}
}

// Whatever callers do at the same time, no more is granted than there is.
func TestRace(t *testing.T) {
	const seed = 13
	b := ratelimit.New(ratelimit.Options{Share: 1, Pace: 1e-9})
	var granted atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		random := rand.New(rand.NewPCG(seed, uint64(g)))
		wg.Go(func() {
			for i := range 200 {
				name := fmt.Sprintf("vm%d-%d", g, i)
				p := ratelimit.Priority(random.IntN(5))
				wait := b.Ticket(name, p, ratelimit.ARMWrites, ratelimit.PutVM)
				switch {
				case wait > 0 && random.IntN(2) == 0:
					b.Drop(name, ratelimit.PutVM)
				case wait == 0 && random.IntN(4) == 0:
					b.Drop(name, ratelimit.PutVM)
				case wait == 0:
					granted.Add(1)
				}
				if random.IntN(20) == 0 {
					b.RequestStats()
				}
			}
		})
	}
	wg.Wait()
	left := b.RequestStats().Left["arm-writes"]
	if n := float64(granted.Load()); n > 200 || math.Abs(n+left-200) > 0.01 {
		t.Errorf("seed %d: %v tickets granted and %v left of 200", seed, n, left)
	}
}
