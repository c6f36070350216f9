// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// karve is the controller's process: at most one at a time. newKarve makes them.
type karve struct {
	argv []string
	env  []string
	log  string

	// onRestart is called with the actions of restartWhenEnded; nil means that karve is not restarted.
	onRestart func(text string)
	restarts  restarts
	started   chan struct{} // holds one token when start was called
	givenUp   chan struct{} // closed when restartWhenEnded gives karve up

	mu      sync.Mutex
	process *child
	ready   string // URL that answers 200 when karve works
	metrics string // host and port of its metrics
	failure error  // why restartWhenEnded has given karve up
}

func newKarve(argv, env []string, log string, notice func(string)) *karve {
	return &karve{argv: argv, env: env, log: log, onRestart: notice, started: make(chan struct{}, 1), givenUp: make(chan struct{})}
}

// start runs karve and returns when it is ready.
func (k *karve) start(ctx context.Context) error {
	if err := k.launch(ctx); err != nil {
		return fmt.Errorf("starting karve: %w", err)
	}
	select {
	case k.started <- struct{}{}:
	default:
	}
	if err := k.waitReady(ctx); err != nil {
		return fmt.Errorf("waiting for karve: %w", err)
	}
	return nil
}

func (k *karve) launch(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running() {
		return errors.New("it is running already")
	}
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(k.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening its log: %w", err)
	}
	defer file.Close() // the child has its own copy
	env := append(slices.Clone(k.env), "HEALTH_PROBE_PORT="+ports[0], "METRICS_PORT="+ports[1])
	k.process, err = startChild(k.argv, env, file)
	k.ready = "http://" + net.JoinHostPort("127.0.0.1", ports[0]) + "/readyz"
	k.metrics = net.JoinHostPort("127.0.0.1", ports[1])
	return err
}

// running reports whether the process runs. Callers hold mu.
func (k *karve) running() bool {
	if k.process == nil {
		return false
	}
	select {
	case <-k.process.ended:
		return false
	default:
		return true
	}
}

// current returns the process and its readiness URL.
func (k *karve) current() (*child, string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.process, k.ready
}

// endError describes how the process ended, with its last output.
func (k *karve) endError(process *child) error {
	return fmt.Errorf("karve ended by itself (%v); its last output, from %s:\n%s", process.err, k.log, lastLines(k.log, 10))
}

func (k *karve) waitReady(ctx context.Context) error {
	process, url := k.current()
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("%s did not answer 200 within a minute; see %s", url, k.log))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if answers(ctx, url) {
			return nil
		}
		select {
		case <-process.ended:
			return k.endError(process)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// freePorts asks the kernel for unused ports. They are free when this
// returns; another process could still take one before karve does, and then karve
// reports it and the start fails.
func freePorts(ctx context.Context, n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer l.Close() // after all are found, so that they differ
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}

// StartKarve starts karve again after KillKarve or StopKarve and waits until it
// is ready.
func (e *Environment) StartKarve(ctx context.Context) error { return e.karve.start(ctx) }

// KillKarve ends karve as a power cut would (SIGKILL) and waits until it has ended.
func (e *Environment) KillKarve() error {
	process, _ := e.karve.current()
	if process == nil {
		return nil
	}
	return process.kill()
}

// StopKarve ends karve as Kubernetes would: SIGTERM first.
func (e *Environment) StopKarve() error {
	process, _ := e.karve.current()
	if process == nil {
		return nil
	}
	return process.stop(10 * time.Second)
}

// KarveProcess is the process ID of karve, and the host and port at which it serves metrics; of its
// last process if none runs.
func (e *Environment) KarveProcess() (pid int, metrics string) {
	e.karve.mu.Lock()
	defer e.karve.mu.Unlock()
	return e.karve.process.cmd.Process.Pid, e.karve.metrics
}

// KarveLog is the file with all of karve's output in this run.
func (e *Environment) KarveLog() string { return e.karve.log }

// err reports that karve ended by itself, with its last output; nil while it
// runs or is restarted, and after Environment ended it.
func (k *karve) err() error {
	if k.onRestart != nil {
		return k.givenUpError()
	}
	process, _ := k.current()
	if process == nil || process.asked.Load() {
		return nil
	}
	select {
	case <-process.ended:
		return k.endError(process)
	default:
		return nil
	}
}
