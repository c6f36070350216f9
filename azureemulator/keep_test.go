package azureemulator

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// roster is a Guest that notes who booted, with what.
type roster struct {
	mu    sync.Mutex
	boots map[string]string // customData by machine
}

func (r *roster) Run(ctx context.Context, m Machine) {
	r.mu.Lock()
	r.boots[m.Name] = string(m.CustomData)
	r.mu.Unlock()
	<-ctx.Done()
}

// keeper opens one emulator after the other in a folder.
type keeper struct {
	t   *testing.T
	dir string
}

func (k keeper) open(g Guest) *bubble {
	k.t.Helper()
	s, err := newServer(k.t.Context(), Options{TimeScale: 1, SystemNodes: 1, Keep: true, Dir: k.dir, Guest: g, Seed: 7})
	if err != nil {
		k.t.Fatal(err)
	}
	return &bubble{s, k.t, s.identity.issue("test", time.Now())}
}

func (b *bubble) mustClose() {
	b.t.Helper()
	if err := b.CheckInvariants(); err != nil {
		b.t.Error(err)
	}
	if err := b.Close(); err != nil {
		b.t.Error(err)
	}
}

// begin asks for two machines and for a third's end, and returns where the first one's
// operation is.
func (b *bubble) begin() (operation string) {
	b.t.Helper()
	w := b.send(http.MethodPut, b.path(vmKind, "one"), strings.Replace(b.machine("one"), `"adminUsername"`, `"customData":"aGVsbG8=","adminUsername"`, 1))
	if w.Code != http.StatusCreated {
		b.t.Fatalf("%d %s", w.Code, w.Body)
	}
	b.try("PUT", b.path(vmKind, "two"), b.machine("two"))
	b.try("DELETE", b.path(vmKind, "old"), "")
	operation = w.Header().Get("Azure-AsyncOperation")
	return operation[strings.Index(operation, "/subscriptions"):]
}

// An emulator that ends in the middle of creations and deletions, at whatever moment, is
// followed by one that finishes them: nothing is lost, nothing is there twice.
func TestRestartInTheMiddle(t *testing.T) {
	for _, cut := range []time.Duration{0, time.Second, 10 * time.Second, 25 * time.Second, 45 * time.Second, 5 * time.Minute} {
		t.Run(cut.String(), func(t *testing.T) {
			k := keeper{t, t.TempDir()}
			synctest.Test(t, func(t *testing.T) {
				k.t = t
				b := k.open(nil)
				b.try("PUT", b.path(vmKind, "old"), b.machine("old"))
				time.Sleep(10 * time.Minute)
				operation := b.begin()
				time.Sleep(cut)
				before := b.State()
				b.mustClose()

				guests := &roster{boots: map[string]string{}}
				b = k.open(guests)
				if after := b.State(); len(after.VMs) != len(before.VMs) || len(after.NICs) != len(before.NICs) || len(after.Disks) != len(before.Disks) {
					t.Errorf("before %d machines, %d interfaces, %d disks; after %d, %d, %d", len(before.VMs), len(before.NICs), len(before.Disks), len(after.VMs), len(after.NICs), len(after.Disks))
				}
				time.Sleep(20 * time.Minute)
				for _, name := range []string{"one", "two"} {
					if v := b.named(name); v.Provisioning != succeeded || v.Power != running {
						t.Errorf("%s is %+v", name, v)
					}
				}
				if s := b.State(); len(s.VMs) != 3 || len(s.NICs) != 3 || b.named("old").Name != "" {
					t.Errorf("%d machines, %d interfaces; old is %+v", len(s.VMs), len(s.NICs), b.named("old"))
				}
				if _, text, err := b.try("GET", operation, ""); err != nil || !strings.Contains(text, succeeded) {
					t.Errorf("the operation that began before: %s, %v", text, err)
				}
				guests.mu.Lock()
				if guests.boots["one"] != "hello" || len(guests.boots) != 2 {
					t.Errorf("booted: %q", guests.boots)
				}
				guests.mu.Unlock()
				for _, name := range []string{"one", "two"} {
					b.try("DELETE", b.path(vmKind, name), "")
				}
				time.Sleep(10 * time.Minute)
				if s := b.State(); len(s.VMs) != 1 || len(s.NICs) != 1 {
					t.Errorf("left are %d machines and %d interfaces, want the cluster's own", len(s.VMs), len(s.NICs))
				}
				b.mustClose()
			})
		})
	}
}

// What a power cut leaves is a few seconds old.
func TestStateAfterAPowerCut(t *testing.T) {
	k, other := keeper{t, t.TempDir()}, t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k.t = t
		b := k.open(nil)
		b.begin()
		time.Sleep(2 * keptEvery)
		state, err := os.ReadFile(filepath.Join(k.dir, stateFile))
		if err != nil {
			t.Fatal(err)
		}
		b.mustClose()
		if err := os.WriteFile(filepath.Join(other, stateFile), state, 0o600); err != nil {
			t.Fatal(err)
		}
		b = keeper{t, other}.open(nil)
		time.Sleep(10 * time.Minute)
		if one := b.named("one"); one.Provisioning != succeeded {
			t.Errorf("one is %+v", one)
		}
		b.mustClose()
	})
}

// Machines of AKS's are kept likewise, before there is a virtual machine and after.
func TestRestartOfAKSMachines(t *testing.T) {
	for _, cut := range []time.Duration{0, 10 * time.Second, 5 * time.Minute} {
		t.Run(cut.String(), func(t *testing.T) {
			k := keeper{t, t.TempDir()}
			synctest.Test(t, func(t *testing.T) {
				k.t = t
				b := k.open(nil)
				pool := fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.ContainerService/managedClusters/%[2]s/agentPools/%s", b.options.SubscriptionID, b.options.ClusterName, b.options.MachinesPool)
				body := `{"zones":["1"],"properties":{"hardware":{"vmSize":"Standard_D4s_v5"},"kubernetes":{"orchestratorVersion":"1.36.3","maxPods":30},"tags":{"a":"b"}}}`
				if code, text, err := b.try("PUT", pool+"/machines/m1?api-version=1", body); err != nil || code != http.StatusCreated {
					t.Fatalf("%d %s %v", code, text, err)
				}
				time.Sleep(cut)
				b.mustClose()
				b = k.open(nil)
				time.Sleep(10 * time.Minute)
				if s := b.State(); len(s.Machines) != 1 || s.Machines[0].Provisioning != succeeded || s.Machines[0].VM == "" || len(s.VMs) != 2 {
					t.Errorf("machines %+v, %d virtual ones", s.Machines, len(s.VMs))
				}
				b.try("POST", pool+"/deleteMachines?api-version=1", `{"machineNames":["m1"]}`)
				b.mustClose()
				b = k.open(nil)
				time.Sleep(10 * time.Minute)
				if s := b.State(); len(s.Machines) != 0 || len(s.VMs) != 1 {
					t.Errorf("left are machines %+v, %d virtual ones", s.Machines, len(s.VMs))
				}
				b.mustClose()
			})
		})
	}
}

// A state that cannot be read is no reason to begin with nothing.
func TestStateThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(`{"VMs":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newServer(t.Context(), Options{Keep: true, Dir: dir}); err == nil || !strings.Contains(err.Error(), "state") {
		t.Errorf("starting: %v", err)
	}
	if _, err := newServer(t.Context(), Options{Keep: true}); err == nil || !strings.Contains(err.Error(), "Dir") {
		t.Errorf("without a folder: %v", err)
	}
}
