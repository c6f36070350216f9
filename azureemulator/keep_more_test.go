package azureemulator

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// struck is which of the next n reads a 503 strikes.
func (b *bubble) struck(n int) (which string) {
	b.t.Helper()
	for range n {
		code, _, err := b.try("GET", b.path(vmKind, "nobody"), "")
		if err != nil {
			b.t.Fatal(err)
		}
		which += map[bool]string{true: "x", false: "."}[code == http.StatusServiceUnavailable]
	}
	return which
}

// Whoever restarts an emulator finds what he told it, and clients go on with their tokens.
func TestRestartKeepsWhatWasTold(t *testing.T) {
	k := keeper{t, t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		k.t = t
		seeded := Named{Name: "Status503", Times: 8, Seed: 7}
		b := k.open(nil)
		b.inject(seeded)
		whole := b.struck(40)
		b.ClearFaults()

		b.running("vm")
		b.token = b.identity.issue("again", time.Now())
		b.inject(Named{Name: stuckDeleting})
		b.inject(seeded)
		first := b.struck(11)
		if err := b.AddFault(Fault{Method: "GET", Path: "/disks$", Status: 418, Times: 2}); err != nil {
			t.Fatal(err)
		}
		if err := b.PublishImage("2204gen2containerd", "202512.14.0"); err != nil {
			t.Fatal(err)
		}
		group := b.AddSecurityGroup("mine")
		if err := b.Announce("vm", redeploy, 15*time.Minute); err != nil {
			t.Fatal(err)
		}
		revoked, good := b.identity.issue("revoked", time.Now()), ""
		b.RevokeTokens()
		good = b.identity.issue("good", time.Now())
		b.token = good
		b.inject(Named{Name: "ExhaustedArmReads"})
		b.mustClose()
		time.Sleep(time.Second)

		b = k.open(nil)
		b.SetThrottling(true)
		b.token = good
		if code, text, err := b.try("GET", b.path("Microsoft.Compute/disks", "x"), ""); err != nil || code != http.StatusNotFound {
			t.Errorf("with a token of before, a second after there were no reads: %d %s %v", code, text, err)
		}
		if left := b.throttles.buckets["arm/reads"].tokens; left > 30 {
			t.Errorf("%v reads are left a second after there were none", left)
		}
		b.SetThrottling(false)
		b.token = revoked
		if w := b.send("GET", b.path(vmKind, "vm"), ""); w.Code != http.StatusUnauthorized || !strings.Contains(w.Header().Get("WWW-Authenticate"), "insufficient_claims") {
			t.Errorf("with a token that was revoked before: %d %v", w.Code, w.Header())
		}
		b.token = good
		if f := b.Faults(); len(f) != 2 || f[1].Status != 418 || f[1].Times != 2 {
			t.Errorf("faults %+v", f)
		}
		// One more read was made above, to see the token.
		if second := b.struck(28); first+whole[11:12]+second != whole {
			t.Errorf("struck %s, and around a restart %s.%s", whole, first, second)
		}
		if g := b.nsgs[key(b.options.NodeResourceGroup, "mine")]; g == nil || g.id != group {
			t.Error("the security group is gone")
		}
		if d, _ := b.definition(ubuntuGallery, "2204gen2containerd"); d.versions[len(d.versions)-1].name != "202512.14.0" || len(d.versions) != 5 {
			t.Errorf("versions %+v", d.versions)
		}
		time.Sleep(14 * time.Minute)
		if power, events := b.look("vm"); power != running || events != 1 {
			t.Errorf("14 minutes after it was announced it is %s, with %d events", power, events)
		}
		time.Sleep(70 * time.Second)
		if power, _ := b.look("vm"); power != starting {
			t.Errorf("15 minutes after it was announced it is %s", power)
		}
		time.Sleep(5 * time.Minute)
		b.try("DELETE", b.path(vmKind, "vm"), "")
		time.Sleep(time.Hour)
		if v := b.named("vm"); v.Provisioning != deleting {
			t.Errorf("its deletion was to be stuck, and it is %+v", v)
		}
		b.mustClose()
	})
}

// look is how a machine stands, and how many events await it.
func (b *bubble) look(name string) (power string, events int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.vmNamed(name)
	return v.power, len(v.events)
}

// Clients that trust an emulator trust the next one in its folder, and only where things are
// kept is a key written down.
func TestRestartKeepsTheAuthority(t *testing.T) {
	dir := t.TempDir()
	open := func(keep bool, dir string) *Server {
		t.Helper()
		s, err := Start(t.Context(), Options{Keep: keep, Dir: dir, SystemNodes: -1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := open(true, dir)
	trusting := first.Transport()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(true, dir)
	client := &http.Client{Transport: trusting}
	resp, err := client.Get(second.URL() + "/_emulator/ledger") //nolint:noctx // it is answered at once
	if err != nil {
		t.Fatal(err)
	}
	var ledger Ledger
	if err := json.NewDecoder(resp.Body).Decode(&ledger); err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, rootFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	other := t.TempDir()
	if err := open(false, other).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(other, rootFile)); !os.IsNotExist(err) {
		t.Errorf("a key was kept that nobody asked to keep: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, rootFile), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Keep: true, Dir: dir}); err == nil || !strings.Contains(err.Error(), rootFile) {
		t.Errorf("with an authority that cannot be read: %v", err)
	}
}
