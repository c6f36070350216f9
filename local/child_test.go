// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// start runs a shell script as a child with its output in a log.
func start(t *testing.T, script string) (c *child, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, err = startChild([]string{"/bin/sh", "-c", script}, []string{"PATH=" + os.Getenv("PATH")}, file)
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

func TestChildIsToldWhichDescriptorEndsWithUs(t *testing.T) {
	c, log := start(t, `echo "fd $KARVE_PARENT_FD"; test -p /dev/fd/$KARVE_PARENT_FD || exit 3`)
	<-c.ended
	if text := lastLines(log, 1); c.err != nil || text != "fd 3" {
		t.Errorf("child ended with %v and said %q", c.err, text)
	}
}

func TestKilledChildIsGone(t *testing.T) {
	c, _ := start(t, "while :; do read line; done < /dev/zero")
	if err := c.kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Process.Signal(syscall.Signal(0)); err == nil {
		t.Error("the process still exists")
	}
	if err := c.kill(); err != nil {
		t.Errorf("killing it again: %v", err)
	}
}

func TestStoppedChildMayTidyUp(t *testing.T) {
	// The child creates a file when it is ready, so that the signal cannot come first.
	ready := filepath.Join(t.TempDir(), "ready")
	c, log := start(t, "trap 'echo bye; exit 0' TERM; : > "+ready+"; while :; do :; done")
	waitFor(t, ready)
	if err := c.stop(time.Minute); err != nil {
		t.Fatal(err)
	}
	if text := lastLines(log, 1); text != "bye" {
		t.Errorf("last words %q", text)
	}
}

func TestStubbornChildIsKilled(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	c, _ := start(t, "trap '' TERM; : > "+ready+"; while :; do :; done")
	waitFor(t, ready)
	if err := c.stop(10 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if c.err == nil || !strings.Contains(c.err.Error(), "killed") {
		t.Errorf("ended with %v, want killed", c.err)
	}
}

func TestLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, bytes.Repeat([]byte("one\ntwo\n"), 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := lastLines(path, 3); got != "two\none\ntwo" {
		t.Errorf("got %q", got)
	}
	if got := lastLines(path+"-missing", 3); !strings.Contains(got, "no such file") {
		t.Errorf("a missing log is reported as %q", got)
	}
}

func waitFor(t *testing.T, file string) {
	t.Helper()
	err := Until(t.Context(), time.Minute, file+" exists", func(context.Context) (bool, error) {
		_, err := os.Stat(file)
		return err == nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
}
