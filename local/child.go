// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// parentVariable names the environment variable with the descriptor that ends with karve's parent.
const parentVariable = "KARVE_PARENT_FD"

// child is a process that ends with this one: it holds the read end of a
// pipe whose write end only this process has, and exits when the kernel closes that.
type child struct {
	cmd   *exec.Cmd
	leash *os.File
	began time.Time
	// ended is closed when the process has ended; err is set before.
	ended chan struct{}
	err   error
	// asked is set before we end it: its end is then no news.
	asked atomic.Bool
}

// startChild runs a command with the given environment; output is the child's
// own, so that nothing is lost when we are killed.
func startChild(argv, env []string, output *os.File) (*child, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making the pipe that ties %s to us: %w", argv[0], err)
	}
	defer read.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(env, parentVariable+"=3")
	cmd.ExtraFiles = []*os.File{read}
	cmd.Stdout, cmd.Stderr = output, output
	// A group of its own: Ctrl-C is for us, and we end the child in our order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		write.Close()
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	c := &child{cmd: cmd, leash: write, began: time.Now(), ended: make(chan struct{})}
	go c.wait()
	return c, nil
}

func (c *child) wait() {
	c.err = c.cmd.Wait()
	c.leash.Close()
	close(c.ended)
}

// kill ends the child as a power cut would and waits until it has ended.
func (c *child) kill() error {
	c.asked.Store(true)
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing process %d: %w", c.cmd.Process.Pid, err)
	}
	<-c.ended
	return nil
}

// stop asks the child to end and, when it does not within patience, makes it.
func (c *child) stop(patience time.Duration) error {
	c.asked.Store(true)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping process %d: %w", c.cmd.Process.Pid, err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.ended:
		return nil
	case <-timer.C:
		return c.kill()
	}
}

// lastLines returns up to n last lines of a log, for error messages.
func lastLines(path string, n int) string {
	file, err := os.Open(path)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	defer file.Close()
	const window = 8 << 10
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-window), io.SeekStart) // if it fails, there is less to show
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return "(unreadable log: " + err.Error() + ")"
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-n):], []byte("\n")))
}
