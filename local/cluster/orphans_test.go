// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/karve-dev/karve/local/cluster"
	"github.com/karve-dev/karve/local/cluster/clustertest"
)

// clusterDirVariable turns the test program into one that only runs a cluster in that
// directory, to be killed.
const clusterDirVariable = "KARVE_TEST_CLUSTER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(clusterDirVariable); dir != "" {
		os.Exit(runUntilKilled(dir))
	}
	os.Exit(m.Run())
}

// runUntilKilled starts a cluster and prints its process ids.
func runUntilKilled(dir string) int {
	c, err := cluster.Start(context.Background(), cluster.Options{Dir: dir, Binary: os.Getenv("KARVE_CONTROLPLANE")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(c.Processes()); err != nil {
		return 1
	}
	<-c.Done()
	fmt.Fprintln(os.Stderr, c.Err())
	return 1
}

func TestKilledParentLeavesNoOrphans(t *testing.T) {
	dir := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), clusterDirVariable+"="+dir, "KARVE_CONTROLPLANE="+clustertest.Binary(t))
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	children := map[string]int{}
	if err := json.NewDecoder(out).Decode(&children); err != nil {
		t.Fatalf("reading the process ids: %v", err)
	}
	if len(children) != 5 {
		t.Fatalf("processes are %v, want five", children)
	}
	for name, pid := range children {
		if exited(pid) {
			t.Errorf("%s (process %d) is gone before its parent", name, pid)
		}
	}

	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed: the error reports it
	for name, pid := range children {
		clustertest.Eventually(t, name+" gone", func(context.Context) error {
			if !exited(pid) {
				return fmt.Errorf("process %d lives", pid)
			}
			return nil
		})
	}

	// The crash left a lock file, data and certificates behind. None of it is in the way.
	c, client := clustertest.Start(t, dir)
	register(t, client, "worker")
	create(t, client, pod("web", "worker"))
	running(t, client, "web")
	c.Stop()
	for name, pid := range c.Processes() {
		if !exited(pid) {
			t.Errorf("%s (process %d) outlived Stop", name, pid)
		}
	}
	if err := c.Err(); err != nil {
		t.Errorf("after Stop: %v", err)
	}
}

// exited reports whether the process has ended, reaped or not: in a container a zombie
// may never be reaped.
func exited(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false // not Linux, or ended a moment ago and found so next time
	}
	// The state follows the program's name, which is in parentheses.
	_, state, found := strings.Cut(string(stat), ") ")
	return found && strings.HasPrefix(state, "Z")
}
