// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"time"

	"github.com/karve-dev/karve/controller/manager"
	"github.com/karve-dev/karve/test/kubeapi"
)

// usual are the features of a karve that nobody has set up otherwise.
var usual = manager.Features{StaticCapacity: true, CapacityBuffer: true, NodeOverlay: true}

func processFaults() []FaultKind {
	const of = "process"
	return []FaultKind{
		happening(of, "Killed", func(s *script, d *drawing) { s.crash(d.lasts / 10) }),
		happening(of, "KilledAtWrite", func(s *script, d *drawing) {
			s.restartEnded()
			s.karve[0].hindrance.killAtWrite(1+d.n%40, d.m%2 == 0)
		}),
		happening(of, "KilledAgainAndAgain", func(s *script, d *drawing) {
			for range 2 + d.n%4 { // out of memory as soon as it has seen the cluster
				s.crash(time.Second)
				s.waitUntil(time.Now().Add(time.Duration(3+d.m%25) * time.Second))
			}
		}),
		happening(of, "Stopped", func(s *script, d *drawing) {
			s.restartEnded()
			p := s.karve[0]
			p.api.Pause()
			time.Sleep(10*time.Second + d.lasts%(110*time.Second))
			p.api.Resume()
		}),
		happening(of, "Hiccups", func(s *script, d *drawing) {
			s.restartEnded()
			p := s.karve[0]
			for range 1 + d.n%5 { // as long collections of garbage
				p.api.Pause()
				time.Sleep(time.Duration(d.m%3000) * time.Millisecond)
				p.api.Resume()
				time.Sleep(time.Duration(d.n%10) * time.Second)
			}
		}),
		happening(of, "StoppedWhileAnotherLeads", func(s *script, d *drawing) { s.stopLeader(10*time.Second + d.lasts%(110*time.Second)) }),
		happening(of, "SlowProcess", func(s *script, d *drawing) {
			s.restartEnded()
			p := s.karve[0]
			p.hindrance.setSlow(time.Duration(50+d.m%1500) * time.Millisecond)
			s.forAWhile(d.lasts, func() { p.hindrance.setSlow(0) })
		}),
		happening(of, "LeaderFlaps", func(s *script, d *drawing) {
			for range 1 + d.n%3 {
				s.restartEnded()
				back := s.world.api.Inject(kubeapi.Fault{Name: kubeapi.Unreachable, Process: s.karve[0].name, Resources: []string{"leases"}})
				s.startKarve()
				s.waitUntil(time.Now().Add(time.Duration(5+d.m%40) * time.Second))
				back()
			}
		}),
		happening(of, "DeployedAnew", func(s *script, _ *drawing) { s.rollOut(s.features) }),
		happening(of, "FeaturesFlip", func(s *script, d *drawing) {
			s.rollOut(manager.Features{StaticCapacity: d.n%2 == 0, CapacityBuffer: d.n%4 < 2, NodeOverlay: d.n%8 < 4, NodeRepair: d.n%16 < 8})
			s.forAWhile(d.lasts, func() {}) // the usual ones come back with the next
			s.features = usual
		}),
	}
}

func timeFaults() []FaultKind {
	const of = "time"
	clock := func(name string, ahead time.Duration) FaultKind {
		return happening(of, name, func(s *script, d *drawing) {
			s.world.api.SetClock(ahead)
			s.forAWhile(d.lasts, func() { s.world.api.SetClock(0) })
		})
	}
	return []FaultKind{
		clock("ClockAnHourAhead", time.Hour),
		clock("ClockAnHourBehind", -time.Hour),
		happening(of, "ClockDrifts", func(s *script, d *drawing) {
			drifting, stop := context.WithCancel(s.world.ctx)
			s.forAWhile(d.lasts, stop)
			s.world.running.Go(func() {
				for ahead := time.Second; drifting.Err() == nil; ahead += time.Second {
					s.world.api.SetClock(ahead * time.Duration(1-2*(d.n%2)))
					sleep(drifting, 5*time.Second)
				}
				s.world.api.SetClock(0)
			})
		}),
		happening(of, "KubeletClocks", func(s *script, d *drawing) {
			s.world.kubelets.setClock(time.Duration(d.m%1200-600) * time.Second)
			s.forAWhile(d.lasts, func() { s.world.kubelets.setClock(0) })
		}),
	}
}
