// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/local"
)

// waitLimit is how long nothing may change before what a test waits for counts as never (see
// local.Until). It is long: two busy cores with the race detector are slow, and slow is not wrong.
const waitLimit = 4 * time.Minute

// built are the commands under test.
type built struct{ karve, demo, controlplane string }

// queue makes tests run one after the other, beside the tests of other queues.
type queue struct{ turn sync.Mutex }

// wait returns when the tests before this one have ended and have cleaned up.
func (q *queue) wait(t *testing.T) {
	t.Helper()
	t.Parallel()
	q.turn.Lock()
	t.Cleanup(q.turn.Unlock) // after all else that the test cleans up
}

// system is one environment that the tests of a queue share. It builds the commands
// and starts everything, once, when a first test needs it.
type system struct {
	queue
	dir   string
	race  bool // karve is built with the race detector
	build func() (built, error)
	start func() (*local.Environment, error)

	mu      sync.Mutex
	running *local.Environment
}

// Tests run in three queues side by side. Most share an environment in which karve runs under the
// race detector, where the computer has a C compiler. Tests of large clusters share one with the
// karve that users run, which takes a fraction of the time. Tests that start an environment of
// their own mostly wait for it, and so cost the others little.
var (
	raced, plain    = newSystem("raced", os.Getenv("KARVE_RACE") != ""), newSystem("plain", false)
	ownEnvironments queue
)

func newSystem(name string, race bool) *system {
	s := &system{dir: filepath.Join(os.TempDir(), fmt.Sprintf("karve-e2e-%d", os.Getpid()), name), race: race}
	s.build = sync.OnceValues(s.buildCommands)
	s.start = sync.OnceValues(s.startEnvironment)
	return s
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, s := range []*system{raced, plain} {
		if err := s.close(code != 0); err != nil {
			fmt.Fprintln(os.Stderr, "stopping", s.dir, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// buildCommands builds karve and its demo as they are now, and finds the control plane.
func (s *system) buildCommands() (built, error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return built{}, err
	}
	b := built{
		karve: filepath.Join(s.dir, "karve"), demo: filepath.Join(s.dir, "karve-demo"), // named like their packages
		controlplane: os.Getenv("KARVE_CONTROLPLANE"),
	}
	if b.controlplane == "" {
		b.controlplane = "../../bin/karve-controlplane"
	}
	var err error
	if b.controlplane, err = filepath.Abs(b.controlplane); err != nil {
		return built{}, err
	}
	if _, err := os.Stat(b.controlplane); err != nil {
		return built{}, fmt.Errorf("the control plane is not built (%w): run 'make controlplane', or name it in KARVE_CONTROLPLANE", err)
	}
	build := exec.Command("go", "build", "-o", s.dir+"/", fmt.Sprint("-race=", s.race), "../../cmd/karve", "../../cmd/karve-demo")
	if s.race { // which needs cgo; users' karve has none
		build.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	if output, err := build.CombinedOutput(); err != nil {
		return built{}, fmt.Errorf("building karve: %w\n%s", err, output)
	}
	return b, nil
}

func (s *system) startEnvironment() (*local.Environment, error) {
	b, err := s.build()
	if err != nil {
		return nil, err
	}
	env, err := local.Start(context.Background(), local.Options{
		Dir:          s.dir,
		Controlplane: b.controlplane,
		Karve:        b.karve,
		// Leaked VMs are looked for from this age on; the default would only
		// make the tests wait. The lease is long: on a computer that does much else at
		// the same time a leader may be slow to renew it, and is no less alive. Moves are
		// watched as briefly before they begin as Azure's delays are short.
		KarveEnv: []string{"ORPHAN_GRACE_PERIOD=5s", "LEADER_ELECTION_LEASE_DURATION=60s", "CONSOLIDATION_VALIDATION_DELAY=3s", "CONSOLIDATION_EXPECTED_STAY=0s", "LOG_LEVEL=debug"},
		Azure:    azureemulator.Options{TimeScale: 0.02, Seed: 1},
		Progress: func(step string) { fmt.Println(filepath.Base(s.dir)+":", step) },
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = env
	return env, err
}

// close ends what runs. Logs of a failed run are kept and named.
func (s *system) close(failed bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.running != nil {
		errs = append(errs, s.running.Close())
	}
	if failed {
		fmt.Println("logs of this run:", filepath.Join(s.dir, "logs"))
		return errors.Join(errs...)
	}
	errs = append(errs, os.RemoveAll(s.dir))
	_ = os.Remove(filepath.Dir(s.dir)) // the last one out: it has to be empty
	return errors.Join(errs...)
}

// environment is the system of most tests.
func environment(t *testing.T) *local.Environment { return raced.take(t) }

// take waits for the test's turn with the system; the test fails when it is not
// healthy, before and after.
func (s *system) take(t *testing.T) *local.Environment {
	t.Helper()
	s.wait(t)
	env, err := s.start()
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Err(); err != nil {
		t.Fatalf("the environment broke in an earlier test: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Err(); err != nil {
			t.Errorf("the environment broke: %v", err)
		}
	})
	return env
}

// commands builds without starting anything.
func commands(t *testing.T) built {
	t.Helper()
	b, err := plain.build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
