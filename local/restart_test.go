// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Pauses double with each quick end, an end after a long run resets the count, and after
// five quick ends there is no sixth start.
//
// Rule DEMO-2.
func TestPausesBeforeKarveIsStartedAgain(t *testing.T) {
	var r restarts
	for i, step := range []struct {
		ran, pause time.Duration
		ok         bool
	}{
		{0, time.Second, true}, {59 * time.Second, 2 * time.Second, true}, {time.Second, 4 * time.Second, true},
		{time.Hour, time.Second, true}, {0, 2 * time.Second, true}, {0, 4 * time.Second, true}, {0, 8 * time.Second, true},
		{0, 16 * time.Second, true}, {0, 0, false},
	} {
		if pause, ok := r.after(step.ran); pause != step.pause || ok != step.ok {
			t.Errorf("end %d, after %s: %s, %v; want %s, %v", i, step.ran, pause, ok, step.pause, step.ok)
		}
	}
}

// keeping runs restartWhenEnded for a karve of that command; the channel has its messages.
func keeping(t *testing.T, argv ...string) (*karve, <-chan string) {
	t.Helper()
	said := make(chan string, 100)
	env := []string{"PATH=" + os.Getenv("PATH"), childVariable + "=1"}
	k := newKarve(argv, env, filepath.Join(t.TempDir(), "karve.log"), func(text string) { said <- text })
	k.restarts.first = time.Nanosecond
	if err := k.launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	keeper := inBackground(t.Context(), k.restartWhenEnded)
	t.Cleanup(func() {
		keeper.stop()
		process, _ := k.current()
		if err := process.kill(); err != nil {
			t.Error(err)
		}
	})
	return k, said
}

// A karve that ends by itself is restarted, and the demo reports it; one that was ended on request
// is not restarted until it is started on request, and is restarted again after that.
//
// Rule DEMO-2.
func TestKarveIsStartedAgain(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k, said := keeping(t, self, "-test.run=^TestChildServes$")
	end := func() {
		t.Helper()
		if err := k.waitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, ready := k.current()
		if answers(t.Context(), strings.Replace(ready, "/readyz", "/end", 1)) {
			t.Fatal("the child does not end")
		}
		for _, want := range []string{"karve ended by itself (exit status 4); it is started again", "karve is up again"} {
			if got := <-said; !strings.Contains(got, want) {
				t.Fatalf("said %q, want %q", got, want)
			}
		}
	}
	end()
	end()
	process, _ := k.current()
	if err := process.kill(); err != nil {
		t.Fatal(err)
	}
	if err := k.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	end()
	if err := k.givenUpError(); err != nil {
		t.Error(err)
	}
}

// A karve that always ends soon is given up, with its last output.
//
// Rule DEMO-2.
func TestQuickEndsAreReported(t *testing.T) {
	k, said := keeping(t, "/bin/sh", "-c", "echo the lease is lost; exit 3")
	<-k.givenUp
	err := k.givenUpError()
	for _, want := range []string{"ended by itself 6 times in a row", "exit status 3", "the lease is lost"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if got := strings.Count(lastLines(k.log, 100), "the lease is lost"); got != 1+maxQuickEnds || len(said) != maxQuickEnds {
		t.Errorf("started %d times, and told of %d", got, len(said))
	}
}

const childVariable = "KARVE_TEST_CHILD"

// TestChildServes is no test: it is the process that others start, which is ready until it is
// signalled to end.
func TestChildServes(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		t.Skip("this is what other tests start")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/end", func(http.ResponseWriter, *http.Request) { os.Exit(4) })
	go func() {
		_, _ = os.NewFile(3, "parent").Read(make([]byte, 1)) // ends with the parent
		os.Exit(5)
	}()
	server := http.Server{Addr: net.JoinHostPort("127.0.0.1", os.Getenv("HEALTH_PROBE_PORT")), Handler: mux, BaseContext: func(net.Listener) context.Context { return t.Context() }}
	t.Fatal(server.ListenAndServe())
}
