// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// spoken runs a short story with a clock that the test moves.
func spoken(terminal bool) string {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	v := NewVoice(&out, terminal)
	v.now, v.began = func() time.Time { return clock }, clock
	v.Title("pods arrive")
	for _, running := range []int{0, 1, 1, 2} {
		v.Now("%d/2 running", running)
		clock = clock.Add(1500 * time.Millisecond)
	}
	v.Say("all running")
	v.Block("a\nb\n")
	return out.String()
}

func TestPlainVoiceHasNoControlCharacters(t *testing.T) {
	text := spoken(false)
	for _, r := range text {
		if r < ' ' && r != '\n' {
			t.Fatalf("control character %q in %q", r, text)
		}
	}
	for _, want := range []string{"\npods arrive\n", "    0.0s  0/2 running\n", "    6.0s  all running\n", "          b\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "running\n"); n > 4 {
		t.Errorf("told %d times how things stand: a log would overflow", n)
	}
}

func TestTerminalVoiceOverwritesItsLine(t *testing.T) {
	text := spoken(true)
	if !strings.Contains(text, "\r\x1b[K    1.5s  1/2 running") || strings.Contains(text, "running\n\r") {
		t.Errorf("the changing line is not overwritten in place: %q", text)
	}
}
