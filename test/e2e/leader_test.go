// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/local"
)

// claimsAtOnce is how many NodeClaims karve creates at a time.
const claimsAtOnce = 50

// A leader that is stopped between its decision and the last of its NodeClaims, and continues after
// another has led, creates none of the rest: each pod has one node. It says that it lost the lease, and
// ends.
//
// Rule LEADER-1, Rule LAUNCH-3.
func TestStoppedLeaderDoublesNothing(t *testing.T) {
	ownEnvironments.wait(t)
	dir := t.TempDir()
	env := electing(t, dir)
	answers := newHeldAnswers(t, env, dir)
	second, err := env.StartAnother(t.Context(), "second", "KUBECONFIG="+answers.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Stop() })
	first := leader(t, env)
	if err := env.StopKarve(); err != nil { // which gives the lease to the second
		t.Fatal(err)
	}
	waitLeader(t, env, first)
	stopped := leader(t, env)
	if err := env.StartKarve(t.Context()); err != nil {
		t.Fatal(err)
	}

	// Every pod fills a VM, and all of them are in one decision: the NodePool comes last.
	const n = claimsAtOnce + 3
	apply(t, env, deployment("stopped", n, `{cpu: "3"}`, "nodeSelector: {pool: stopped}"))
	waitPending(t, env, n)
	apply(t, env, pool("stopped", "default", `- {key: karpenter.azure.com/sku-cpu, operator: In, values: ["4"]}`))
	select {
	case <-answers.allHeld:
	case <-second.Ended():
		t.Fatalf("the leader ended\n%s", tailOf(second.Log()))
	}
	if err := second.Pause(); err != nil {
		t.Fatal(err)
	}
	answers.release()
	waitLeader(t, env, stopped)
	waitRunning(t, env, "stopped", n)

	if err := second.Resume(); err != nil {
		t.Fatal(err)
	}
	<-second.Ended()
	log, err := os.ReadFile(second.Log())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "another process may lead now") {
		t.Errorf("it does not say why it ended:\n%s", tailOf(second.Log()))
	}
	if err := env.CheckVMs(t.Context(), waitLimit); err != nil {
		t.Error(err)
	}
	claims, err := env.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(claims) != n {
		for i := range claims {
			t.Logf("%+v", claims[i])
		}
		_, first := env.KarveProcess()
		t.Errorf("%d NodeClaims for %d pods that each fill a VM\n%s\n%s: %s", len(claims), n, tailOf(second.Log()), first, tailOf(filepath.Join(dir, "logs", "karve.log")))
	}
}

// electing is an environment in which a leader that is gone is soon followed.
func electing(t *testing.T, dir string) *local.Environment {
	t.Helper()
	b := commands(t)
	env, err := local.Start(t.Context(), local.Options{
		Dir: dir, Controlplane: b.controlplane, Karve: b.karve,
		KarveEnv: []string{"LEADER_ELECTION_LEASE_DURATION=30s", "ORPHAN_GRACE_PERIOD=5s"},
		Azure:    azureemulator.Options{TimeScale: 0.02, Seed: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	return env
}

// heldAnswers is a proxy before the API server that holds the answers to the creation of NodeClaims,
// which are created, until release.
type heldAnswers struct {
	kubeconfig string        // for karve to reach the proxy
	allHeld    chan struct{} // closed when claimsAtOnce answers are held
	released   chan struct{}
	release    func()

	mu   sync.Mutex
	held int
}

// newHeldAnswers starts the proxy, with the certificate of the API server, whose folder of state is dir.
func newHeldAnswers(t *testing.T, env *local.Environment, dir string) *heldAnswers {
	t.Helper()
	h := &heldAnswers{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), allHeld: make(chan struct{}), released: make(chan struct{})}
	h.release = sync.OnceFunc(func() { close(h.released) })
	target, err := url.Parse(env.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "pki", "server.crt"), filepath.Join(dir, "pki", "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // watches
		ModifyResponse: func(r *http.Response) error { h.hold(r.Request); return nil },
	})
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(func() { h.release(); server.CloseClientConnections(); server.Close() })
	if err := env.KubeconfigAt(server.URL, h.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *heldAnswers) hold(r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/nodeclaims") {
		return
	}
	h.mu.Lock()
	if h.held++; h.held == claimsAtOnce {
		close(h.allHeld)
	}
	h.mu.Unlock()
	<-h.released
}
