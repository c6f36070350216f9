// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// Another is a karve process beside that of the Environment, as a second replica of a Deployment is.
// It ends with this process.
type Another struct{ karve *karve }

// StartAnother starts a karve with settings of its own beside the Environment's ("NAME=value"), and
// returns when it is ready, which does not depend on whether it leads. Its log is named after it. Stop
// must be called.
func (e *Environment) StartAnother(ctx context.Context, name string, settings ...string) (*Another, error) {
	a := &Another{newKarve(e.karve.argv, slices.Concat(e.settings, settings), e.karveLog(name), nil)}
	if err := a.karve.start(ctx); err != nil {
		_ = a.Stop() // the first error says more
		return nil, err
	}
	return a, nil
}

// Log is the file with all of its output.
func (a *Another) Log() string { return a.karve.log }

// Pause stops the process (SIGSTOP) until Resume, as a machine does that is suspended.
func (a *Another) Pause() error { return a.signal(syscall.SIGSTOP) }

// Resume has the process continue after Pause.
func (a *Another) Resume() error { return a.signal(syscall.SIGCONT) }

func (a *Another) signal(s syscall.Signal) error {
	process, _ := a.karve.current()
	if err := process.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %s to process %d: %w", s, process.cmd.Process.Pid, err)
	}
	return nil
}

// Ended is closed when the process has ended.
func (a *Another) Ended() <-chan struct{} {
	process, _ := a.karve.current()
	return process.ended
}

// Stop ends the process, also while it is paused.
func (a *Another) Stop() error {
	process, _ := a.karve.current()
	if process == nil {
		return nil
	}
	_ = a.Resume() // one that has ended needs none
	return process.stop(10 * time.Second)
}

// KubeconfigAt writes a kubeconfig to path that has karve reach the API server at another address, such
// as a proxy that authenticates its requests.
func (e *Environment) KubeconfigAt(server, path string) error {
	config, err := clientcmd.LoadFromFile(e.karveKubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of karve: %w", err)
	}
	for _, c := range config.Clusters {
		c.Server = server
	}
	return clientcmd.WriteToFile(*config, path)
}
