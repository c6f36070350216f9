// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"net/http"
	"time"
)

// adminRoutes serve what tests in other processes see and change of s, under /_emulator/.
func adminRoutes(s *Server) []route {
	show := func(pattern string, what func() any) route {
		return admin("GET", pattern, func(*request) (reply, error) { return ok(what()) })
	}
	do := func(method, pattern string, act func(r *request)) route {
		return admin(method, pattern, func(r *request) (reply, error) {
			act(r)
			return done()
		})
	}
	return []route{
		show("state", func() any { return s.State() }),
		show("ledger", func() any { return s.Ledger() }),
		admin("GET", "invariants", func(*request) (reply, error) {
			if err := s.CheckInvariants(); err != nil {
				return reply{}, refuse(http.StatusInternalServerError, "InvariantViolated", "%v", err)
			}
			return done()
		}),
		show("stockouts", func() any { return s.Capacity.Stockouts() }),
		change("POST", "stockouts", func(_ *request, o Stockout) error { return s.Capacity.AddStockout(o) }),
		do("DELETE", "stockouts", func(r *request) {
			s.Capacity.ClearStockouts(r.query.Get("size"), r.query.Get("zone"), r.query.Get("priority"))
		}),
		show("faults", func() any { return s.Faults() }),
		change("POST", "faults", func(_ *request, f Fault) error { return s.AddFault(f) }),
		do("DELETE", "faults", func(*request) { s.ClearFaults() }),
		show("faults/catalogue", func() any { return FaultCatalogue() }),
		change("POST", "faults/named", func(_ *request, n NamedFault) error { return s.Inject(n) }),
		change("PUT", "quota", func(_ *request, q quotaChange) error { return s.Capacity.SetQuota(q.Name, q.Limit) }),
		change("PUT", "throttling", func(_ *request, t throttlingChange) error {
			s.Capacity.SetThrottling(t.Enabled)
			return nil
		}),
		change("PUT", "timescale", func(_ *request, t timeScaleChange) error { return s.SetTimeScale(t.Scale) }),
		change("POST", "images", func(_ *request, i newImage) error { return s.PublishImage(i.Definition, i.Version) }),
		change("POST", "subnets", func(_ *request, n newNetwork) error { return n.add(s.Network) }),
		change("PUT", "subnets/join", func(_ *request, j joinChange) error { return s.Network.SetJoin(j.ID, j.Allowed) }),
		do("POST", "tokens/revoke", func(*request) { s.RevokeTokens() }),
		change("POST", "machines/{machine}/drift", func(r *request, d drift) error {
			return s.VMs.DriftMachine(r.params["machine"], d.Reason)
		}),
		change("POST", "vms/{vm}/evict", func(r *request, e newEvent) error { return s.VMs.Evict(r.params["vm"], e.notice()) }),
		change("POST", "vms/{vm}/scheduledevents", func(r *request, e newEvent) error {
			return s.VMs.Announce(r.params["vm"], e.Kind, e.notice())
		}),
		admin("DELETE", "vms/{vm}/scheduledevents", func(r *request) (reply, error) {
			if err := s.VMs.Withdraw(r.params["vm"]); err != nil {
				return reply{}, notFound("ResourceNotFound", "%v", err)
			}
			return done()
		}),
	}
}

// change is a route that reads a T and acts on it. An act that fails was asked for wrongly. Only
// events may go without a body, which then asks for the usual notice.
func change[T any](method, pattern string, act func(r *request, v T) error) route {
	return admin(method, pattern, func(r *request) (reply, error) {
		var v T
		if _, event := any(v).(newEvent); event && len(r.body) == 0 {
			r.body = []byte("{}")
		}
		if err := r.decode(&v); err != nil {
			return reply{}, err
		}
		if err := act(r, v); err != nil {
			return reply{}, badRequest("BadRequest", "%v", err)
		}
		return done()
	})
}

func done() (reply, error) { return ok(map[string]bool{"ok": true}) }

// What the routes read.
type (
	quotaChange struct {
		Name  string `json:"name"`
		Limit int    `json:"limit"`
	}
	throttlingChange struct {
		Enabled bool `json:"enabled"`
	}
	timeScaleChange struct {
		Scale float64 `json:"scale"`
	}
	newImage struct {
		Definition string `json:"definition"`
		Version    string `json:"version"`
	}
	newNetwork struct {
		ResourceGroup string `json:"resourceGroup"`
		VNet          string `json:"vnet"`
		Name          string `json:"name"`
		Prefix        string `json:"prefix"`
	}
	joinChange struct {
		ID      string `json:"id"`
		Allowed bool   `json:"allowed"`
	}
	drift struct {
		Reason string `json:"reason"`
	}
	newEvent struct {
		Kind string `json:"kind"`
		// NoticeSeconds is at TimeScale 1: 0 means Azure's least, -1 none.
		NoticeSeconds float64 `json:"noticeSeconds"`
	}
)

func (e newEvent) notice() time.Duration {
	return time.Duration(e.NoticeSeconds * float64(time.Second))
}

func (n newNetwork) add(to *Network) error {
	if n.ResourceGroup == "" || n.VNet == "" || n.Name == "" {
		return badRequest("InvalidParameter", "A subnet needs resourceGroup, vnet, name and prefix.")
	}
	_, err := to.AddSubnet(n.ResourceGroup, n.VNet, n.Name, n.Prefix)
	return err
}
