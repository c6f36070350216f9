// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/karve-dev/karve/local"
)

// demo is the command a newcomer runs, with its state in a folder of the test's. It finds the
// karve beside it.
func demo(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	b := commands(t)
	cmd := exec.Command(b.demo, append([]string{"--state-dir", dir, "--controlplane", b.controlplane}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// The quick start: the demo plays its whole scenario, says so in plain lines when
// the output is no terminal, and its last line has the times.
func TestDemoOnce(t *testing.T) {
	ownEnvironments.wait(t)
	dir := t.TempDir()
	output, err := demo(t, dir, "--once", "--time-scale", "0.02").Output()
	if err != nil {
		t.Fatalf("karve-demo --once: %v\n%s\n%s", err, output, tailOf(filepath.Join(dir, "logs", "karve.log")))
	}
	t.Logf("\n%s", output)
	if i := bytes.IndexFunc(output, func(r rune) bool { return r < ' ' && r != '\n' }); i >= 0 {
		t.Errorf("control character %q in the output", output[i])
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	last := regexp.MustCompile(`^first node ready \d+\.\d s after the pods were created; all 76 pods running in \d+\.\d s; `)
	if !last.MatchString(lines[len(lines)-1]) {
		t.Errorf("the last line does not report the times: %q", lines[len(lines)-1])
	}
	if left := processesNaming(t, dir); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}

// No process is left of a demo that was killed, and a next run in the same folder works. In that
// one karve ends by itself, as one that loses its lease does: it is started again, and the demo
// says so and goes on.
//
// Rule DEMO-2.
func TestDemoAfterAKill(t *testing.T) {
	ownEnvironments.wait(t)
	dir := t.TempDir()
	killed := startDemo(t, dir)
	if n := len(processesNaming(t, dir)); n < 6 {
		t.Errorf("found %d processes of the demo: the search for processes that are left misses some", n)
	}
	if err := killed.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := killed.cmd.Wait(); err == nil {
		t.Error("the killed demo exited with 0")
	}
	waitNoProcesses(t, dir)

	next := startDemo(t, dir)
	killController(t, dir)
	next.waitLine(t, "karve ended by itself (signal: killed); it is started again in 1s")
	next.waitLine(t, "karve is up again")
	if err := next.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	next.waitLine(t, "stopping")
	if err := next.cmd.Wait(); err != nil {
		t.Error(err)
	}
	waitNoProcesses(t, dir)
}

// runningDemo is a demo without a scenario that is up.
type runningDemo struct {
	cmd   *exec.Cmd
	log   string // karve's
	lines *bufio.Scanner
}

// startDemo starts a demo and returns when it is up. Its first line has the kubeconfig.
func startDemo(t *testing.T, dir string) *runningDemo {
	t.Helper()
	d := &runningDemo{cmd: demo(t, dir, "--bare"), log: filepath.Join(dir, "logs", "karve.log")}
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.lines = bufio.NewScanner(stdout)
	if !d.lines.Scan() || !strings.Contains(d.lines.Text(), "KUBECONFIG="+filepath.Join(dir, "kubeconfig")) {
		t.Errorf("the first line is %q (%v), want the kubeconfig", d.lines.Text(), d.lines.Err())
	}
	return d
}

// waitLine reads the demo's output up to a line that has the text.
func (d *runningDemo) waitLine(t *testing.T, text string) {
	t.Helper()
	for d.lines.Scan() {
		if strings.Contains(d.lines.Text(), text) {
			return
		}
	}
	t.Fatalf("the demo ended without a line %q\n%s", text, tailOf(d.log))
}

func waitNoProcesses(t *testing.T, dir string) {
	t.Helper()
	err := local.Until(t.Context(), waitLimit, "no process of the demo is left", func(context.Context) (bool, error) {
		if left := processesNaming(t, dir); len(left) > 0 {
			return false, fmt.Errorf("left: %q", left)
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// killController kills the controller whose environment has the folder in it.
func killController(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(files) == 0 {
		t.Skip("this system does not show the environment of processes")
	}
	for _, file := range files {
		// A process may end while we look; then there is nothing to read.
		environment, _ := os.ReadFile(file)
		arguments, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if !bytes.Contains(environment, []byte(dir)) || !bytes.Contains(arguments, []byte("\x00controller\x00")) {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil {
			err = syscall.Kill(id, syscall.SIGKILL)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no controller is found")
}

// processesNaming lists living processes that have the text in their arguments
// or, where the system shows it (Linux), in their environment: karve's own has
// the folder only there.
func processesNaming(t *testing.T, text string) []string {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		return argumentsNaming(t, text)
	}
	var found []string
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		// A process may end while we look; then there is nothing to read.
		arguments, _ := os.ReadFile(file)
		environment, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if bytes.Contains(arguments, []byte(text)) || bytes.Contains(environment, []byte(text)) {
			found = append(found, string(bytes.ReplaceAll(arguments, []byte{0}, []byte(" "))))
		}
	}
	return found
}

// argumentsNaming is for systems without /proc.
func argumentsNaming(t *testing.T, text string) []string {
	t.Helper()
	output, err := exec.Command("ps", "-A", "-ww", "-o", "args=").Output()
	if err != nil {
		t.Fatalf("listing processes: %v", err)
	}
	var found []string
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func tailOf(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}
