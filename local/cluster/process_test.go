// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
)

// Start draws new ports only if it learns that one was taken.
func TestTakenPortIsRecognised(t *testing.T) {
	path := os.Getenv("KARVE_CONTROLPLANE")
	binary, err := findBinary(path)
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{layout: layout{dir: t.TempDir()}, done: make(chan struct{})}
	if err := c.prepare(); err != nil {
		t.Fatal(err)
	}
	squatter, err := net.Listen("tcp", c.ports.etcd.address())
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	if err := c.launch(binary, c.etcd()); err != nil {
		t.Fatal(err)
	}
	err = c.await(context.Background(), "waiting for etcd", func(context.Context) error {
		return errors.New("it never comes")
	})
	if !errors.Is(err, errPortTaken) {
		t.Errorf("got %v, want a taken port", err)
	}
}

func TestPortsAreBelowTheEphemeralRangeAndDistinct(t *testing.T) {
	p, err := freePorts()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[port]bool{}
	for _, each := range []port{p.etcd, p.apiServer, p.controllerManager, p.scheduler, p.kwok} {
		if each < lowestPort || each >= highestPort || seen[each] {
			t.Errorf("port %d in %+v is out of range or used twice", each, p)
		}
		seen[each] = true
	}
}

func TestBootstrapTokenHasTheFormTheServerDemands(t *testing.T) {
	token, err := newBootstrapToken()
	if err != nil {
		t.Fatal(err)
	}
	if len(token) != tokenIDLength+1+tokenSecretLength || token[tokenIDLength] != '.' {
		t.Errorf("token %q is not id.secret of %d and %d characters", token, tokenIDLength, tokenSecretLength)
	}
}
