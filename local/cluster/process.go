// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// command is how to run one component.
type command struct {
	name string // the applet
	args []string
}

// ComponentError reports that a component of the control plane ended, with its last
// output.
type ComponentError struct {
	Component string
	Err       error  // how the process ended
	LogTail   string // the last lines of its log
	LogFile   string
}

func (e *ComponentError) Error() string {
	return fmt.Sprintf("%s ended: %v; last lines of %s:\n%s", e.Component, e.Err, e.LogFile, e.LogTail)
}

// Unwrap lets callers ask whether the port was the problem.
func (e *ComponentError) Unwrap() error {
	if strings.Contains(e.LogTail, "address already in use") {
		return errors.Join(e.Err, errPortTaken)
	}
	return e.Err
}

// process is a running component.
type process struct {
	name    string
	logFile string
	cmd     *exec.Cmd
	// life is the write end of a pipe. Nothing is ever written: when this process
	// ends, the kernel closes it, and the child reads the end of file and exits.
	life   *os.File
	exited chan struct{}
	err    error // of Wait; set before exited closes
}

func startProcess(binary string, c command, logFile string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	childEnd, life, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer childEnd.Close()

	cmd := exec.Command(binary, append([]string{c.name}, c.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{childEnd} // the first extra file is descriptor 3
	cmd.Env = append(os.Environ(), "KARVE_PARENT_FD=3")
	// A Ctrl-C in the terminal signals the whole foreground group. The children must
	// outlive it until Stop, so that karve can shut down against a running API server.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, life.Close())
	}
	p := &process{name: c.name, logFile: logFile, cmd: cmd, life: life, exited: make(chan struct{})}
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	p.err = p.cmd.Wait()
	_ = p.life.Close() // kept open until here, or the child would exit
	close(p.exited)
}

// failure describes an unexpected exit. The process must have exited.
func (p *process) failure() error {
	err := p.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return &ComponentError{Component: p.name, Err: err, LogTail: tail(p.logFile), LogFile: p.logFile}
}

// stopAll signals all processes to end, waits for them together, and kills the
// remaining ones after the grace.
func stopAll(processes []*process, grace time.Duration) {
	for _, p := range processes {
		p.signal(syscall.SIGTERM)
	}
	deadline := time.After(grace)
	for _, p := range processes {
		select {
		case <-p.exited:
		case <-deadline:
			killAll(processes)
			return
		}
	}
}

func killAll(processes []*process) {
	for _, p := range processes {
		p.signal(syscall.SIGKILL)
	}
	for _, p := range processes {
		<-p.exited
	}
}

// signal does nothing to a process that has ended: os.Process records that it was waited
// for, so the signal cannot reach another process with its number.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

const (
	tailBytes = 4096
	tailLines = 12
)

// tail returns the last lines of a log, or why it cannot.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
		_, _ = file.Seek(0, io.SeekStart) // shorter than that: read it all
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}
