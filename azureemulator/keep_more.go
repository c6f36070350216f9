package azureemulator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// What is kept besides resources: who may call, what is wrong on purpose, and what else was
// changed since the start.

// keptFault is a fault of requests that is still at work, with what is left of it. Those of
// the catalogue are known by their name.
type keptFault struct {
	Fault
	Named          *Named
	Strikes, Draws int
}

type keptQuirk struct {
	Left  int
	Seed  uint64
	Draws int
}

type keptBucket struct {
	PerMinute, Burst, Tokens float64
	Last                     time.Time
}

type keptImage struct {
	Gallery, Name string
	Versions      []keptVersion // oldest first
}

type keptVersion struct {
	Name      string
	Published time.Time
}

type keptBalancer struct {
	keptCommon
	Pools []string
}

// keptEvent is an event that was announced and has not begun.
type keptEvent struct {
	ID, Kind, Source, Description string
	NotBefore                     time.Time
	Lasts                         int
}

type keptTokens struct{ Issued, Revoked map[string]time.Time }

func (i *identity) keep() keptTokens {
	i.mu.Lock()
	defer i.mu.Unlock()
	return keptTokens{maps.Clone(i.issued), maps.Clone(i.revoked)}
}

func (i *identity) resume(k keptTokens) {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.Copy(i.issued, k.Issued)
	maps.Copy(i.revoked, k.Revoked)
}

// keepMore describes it. Callers hold mu.
func (s *Server) keepMore(k *kept) {
	k.Tokens, k.Retired, k.Quirks = s.identity.keep(), s.retired, map[string]keptQuirk{}
	for name, q := range s.quirks {
		k.Quirks[name] = keptQuirk{q.left, q.luck.seed, q.luck.draws}
	}
	for _, f := range s.faults {
		k.Faults = append(k.Faults, keptFault{f.Fault, f.named, f.strikes, f.luck.draws})
	}
	k.Buckets = s.throttles.keep(time.Now(), s.timeScale)
	for _, d := range s.images {
		var versions []keptVersion
		for _, v := range d.versions {
			versions = append(versions, keptVersion{v.name, v.published})
		}
		k.Images = append(k.Images, keptImage{d.Gallery, d.Name, versions})
	}
	inOrder(s.nsgs, func(g *nsg) { k.SecurityGroups = append(k.SecurityGroups, g.keep()) })
	inOrder(s.encryptionSets, func(e *common) { k.EncryptionSets = append(k.EncryptionSets, e.keep()) })
	inOrder(s.loadBalancers, func(l *loadBalancer) { k.LoadBalancers = append(k.LoadBalancers, keptBalancer{l.keep(), l.pools}) })
}

// keep leaves out buckets of single resources that are full: they are no different from new ones.
func (t *throttles) keep(now time.Time, scale float64) map[string]keptBucket {
	list := map[string]keptBucket{}
	for key, b := range t.buckets {
		if b.refill(now, scale); b.tokens < b.limit.burst || !strings.Contains(key, "/subscriptions/") {
			list[key] = keptBucket{b.limit.perMinute, b.limit.burst, b.tokens, now}
		}
	}
	return list
}

// resumeMore brings it back, before the resources that refer to it. Callers hold mu.
func (s *Server) resumeMore(k *kept) {
	s.identity.resume(k.Tokens)
	s.retired, s.quirks = k.Retired, map[string]*quirk{}
	for name, q := range k.Quirks {
		s.quirks[name] = &quirk{q.Left, luck{q.Seed, q.Draws}}
	}
	for key, b := range k.Buckets {
		s.throttles.buckets[key] = &bucket{limit: limit{b.PerMinute, b.Burst}, tokens: b.Tokens, last: b.Last}
	}
	for _, i := range k.Images {
		s.resumeImage(i)
	}
	for _, g := range k.SecurityGroups {
		s.nsgs[key(g.Group, g.Name)] = &nsg{g.common()}
	}
	for _, e := range k.EncryptionSets {
		set := e.common()
		s.encryptionSets[key(e.Group, e.Name)] = &set
	}
	for _, l := range k.LoadBalancers {
		s.loadBalancers[key(l.Group, l.Name)] = &loadBalancer{l.common(), l.Pools}
	}
}

// resumeImage brings back the versions of before, those that were published since the start
// among them.
func (s *Server) resumeImage(k keptImage) {
	i := slices.IndexFunc(s.images, func(d imageVersions) bool { return d.Gallery == k.Gallery && d.Name == k.Name })
	if i < 0 {
		return // this emulator has no such definition
	}
	d := &s.images[i]
	d.versions = slices.DeleteFunc(d.versions, func(v imageVersion) bool {
		return slices.ContainsFunc(k.Versions, func(was keptVersion) bool { return was.Name == v.name })
	})
	for _, v := range k.Versions {
		d.versions = append(d.versions, imageVersion{v.Name, v.Published})
	}
}

// resumeFaults has faults go on where they were, in their order.
func (s *Server) resumeFaults(list []keptFault) error {
	for _, k := range list {
		if err := s.resumeFault(k); err != nil {
			return fmt.Errorf("resuming a fault: %w", err)
		}
	}
	return nil
}

func (s *Server) resumeFault(k keptFault) error {
	if k.Named == nil {
		return s.addFault(k.Fault)
	}
	n := *k.Named
	n.Times = k.Times
	if err := s.Inject(n); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.faults[len(s.faults)-1]
	f.strikes, f.luck.draws = k.Strikes, k.Draws
	return nil
}

func (v *vm) keepEvents() (list []keptEvent) {
	for _, e := range v.events {
		if e.status == scheduled {
			list = append(list, keptEvent{e.id, e.kind, e.source, e.description, e.notBefore, e.lasts})
		}
	}
	return list
}

// goOnWithEvents has what was announced to a machine happen when it was to.
func (s *Server) goOnWithEvents(v *vm) {
	for _, e := range v.events {
		s.tellGuest(v, e)
		s.agenda.after(time.Until(e.notBefore), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.begins(v, e)
		})
	}
}
