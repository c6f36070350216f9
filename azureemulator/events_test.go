// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// ask asks a VM's metadata service.
func (b *bubble) ask(vm, path string, header ...string) (int, map[string]any) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "http://169.254.169.254"+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, h := range header {
		r.Header.Set(h, "true")
	}
	answer, err := b.MetadataOf(vm).RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		b.t.Fatalf("%s: %v", raw, err)
	}
	return answer.StatusCode, body
}

const eventsPath = "/metadata/scheduledevents?api-version=2020-07-01"

// events are those that a VM is told of, as "Kind Status".
func (b *bubble) events(vm string) string {
	b.t.Helper()
	_, body := b.ask(vm, eventsPath, "Metadata")
	var all []string
	list, _ := body["Events"].([]any)
	for _, e := range list {
		e := e.(map[string]any)
		all = append(all, e["EventType"].(string)+" "+e["EventStatus"].(string))
	}
	return strings.Join(all, ", ")
}

func (b *bubble) running(names ...string) {
	b.t.Helper()
	for _, name := range names {
		if w := b.send("PUT", b.path(vmKind, name), b.vmBody(name)); w.Code != http.StatusCreated {
			b.t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	time.Sleep(10 * time.Minute)
}

func TestMetadataServiceMinds(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.running("one", "two")
		for path, header := range map[string][]string{
			eventsPath:                  nil,
			"/metadata/scheduledevents": {"Metadata"},
			"/metadata/instance":        {"Metadata"},
			eventsPath + "&forwarded":   {"Metadata", "X-Forwarded-For"},
		} {
			if code, body := b.ask("one", path, header...); code != http.StatusBadRequest || body["error"] == "" {
				t.Errorf("%s with %v: %d %v", path, header, code, body)
			}
		}
		if code, body := b.ask("one", "/metadata/instance/compute?api-version=2021-02-01", "Metadata"); code != http.StatusOK || body["name"] != "one" || body["vmSize"] != "Standard_D4s_v5" {
			t.Errorf("%d %v", code, body)
		}
		if code, _ := b.ask("nobody", eventsPath, "Metadata"); code != http.StatusGone {
			t.Errorf("a VM that is not there is answered %d", code)
		}
		if err := b.VMs.Announce("one", freeze, 0); err != nil {
			t.Fatal(err)
		}
		if one, two := b.events("one"), b.events("two"); one != "Freeze Scheduled" || two != "" {
			t.Errorf("told %q and %q", one, two)
		}
	})
}

func TestEventsHappen(t *testing.T) {
	var boots atomic.Int64
	o := Options{Guest: guestFunc(func(ctx context.Context, _ VM) { boots.Add(1); <-ctx.Done() })}
	inBubble(t, o, func(b *bubble) {
		b.running("frozen", "restarted", "moved", "ended", "kept")
		for name, kind := range map[string]string{"frozen": freeze, "restarted": reboot, "moved": redeploy, "ended": terminate, "kept": reboot} {
			if err := b.VMs.Announce(name, kind, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.VMs.Announce("frozen", "Picnic", 0); err == nil {
			t.Error("a picnic was announced")
		}
		if err := b.VMs.Withdraw("kept"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second)
		if got := b.events("frozen"); got != "Freeze Started" {
			t.Errorf("frozen: %q", got)
		}
		if code, _ := b.ask("restarted", eventsPath, "Metadata"); code != http.StatusGone {
			t.Errorf("a VM that restarts answers %d", code)
		}
		time.Sleep(10 * time.Minute)
		if got := b.events("frozen") + b.events("restarted") + b.events("moved") + b.events("kept"); got != "" {
			t.Errorf("still told: %s", got)
		}
		if len(b.State().VMs) != 4 || boots.Load() != 7 {
			t.Errorf("%d VMs and %d boots, want 4 and 7", len(b.State().VMs), boots.Load())
		}
	})
}

// An event that is acknowledged starts at once.
func TestAcknowledgedEventStarts(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		b.running("one")
		if err := b.VMs.Announce("one", freeze, 0); err != nil {
			t.Fatal(err)
		}
		_, body := b.ask("one", eventsPath, "Metadata")
		id := body["Events"].([]any)[0].(map[string]any)["EventId"].(string)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://169.254.169.254"+eventsPath, strings.NewReader(`{"StartRequests":[{"EventId":"`+id+`"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Metadata", "true")
		if answer, err := b.MetadataOf("one").RoundTrip(r); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", answer, err)
		}
		time.Sleep(time.Second)
		if got := b.events("one"); got != "Freeze Started" {
			t.Errorf("told %q", got)
		}
	})
}
