// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Voice prints the story. On a terminal the current state is one line
// that changes in place; anywhere else it is plain lines, not too many, without
// control characters. The zero Voice is not usable; others may be used by many at a time.
type Voice struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	now      func() time.Time
	began    time.Time

	live     string // what the changing line says, "" when there is none
	lastTold time.Time
}

// tellEvery is how often a changing state becomes a line of its own where lines
// cannot be overwritten.
const tellEvery = 2 * time.Second

// NewVoice returns a Voice that prints to out, which is a terminal or not.
func NewVoice(out io.Writer, terminal bool) *Voice {
	v := &Voice{out: out, terminal: terminal, now: time.Now}
	v.began = v.now()
	return v
}

// Title opens a chapter.
func (v *Voice) Title(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.settle()
	fmt.Fprintf(v.out, "\n%s\n", v.bold(fmt.Sprintf(format, args...)))
}

// Say prints one fact that is true from now on, with the time since the beginning.
func (v *Voice) Say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.settle()
	fmt.Fprintf(v.out, "%s  %s\n", v.clock(), fmt.Sprintf(format, args...))
}

// Block prints lines that belong to the last fact, such as a table.
func (v *Voice) Block(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.settle()
	for line := range strings.Lines(text) {
		fmt.Fprintf(v.out, "          %s\n", strings.TrimRight(line, "\n"))
	}
}

// Now prints the current state, which will soon change.
func (v *Voice) Now(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	v.mu.Lock()
	defer v.mu.Unlock()
	if text == v.live {
		return
	}
	if v.terminal {
		v.live = text
		fmt.Fprintf(v.out, "\r\x1b[K%s  %s", v.clock(), text)
		return
	}
	if v.now().Sub(v.lastTold) < tellEvery {
		return
	}
	v.live, v.lastTold = text, v.now()
	fmt.Fprintf(v.out, "%s  %s\n", v.clock(), text)
}

// settle ends the changing line: the next output begins on a line of its own.
func (v *Voice) settle() {
	if v.terminal && v.live != "" {
		fmt.Fprint(v.out, "\r\x1b[K")
	}
	v.live = ""
}

// clock is the time since the beginning, as wide as its lines need.
func (v *Voice) clock() string {
	return fmt.Sprintf("%7.1fs", v.now().Sub(v.began).Seconds())
}

func (v *Voice) bold(text string) string {
	if !v.terminal {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}
