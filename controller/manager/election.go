// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	crmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/karve-dev/karve/controller/leader"
)

// election makes the lock of the leader election, which controller-runtime would make by itself if
// no fence followed it.
type election struct {
	recorder.Provider // of nothing but GetEventRecorderFor
	events            *lateEvents
}

// lateEvents records events once there is a manager to do so.
type lateEvents struct{ record.EventRecorder }

// GetEventRecorderFor is called with the identity of the process.
func (e *election) GetEventRecorderFor(string) record.EventRecorder { return e.events }

// lock is the lock to lead with, followed by the fence.
func (e *election) lock(o *crmanager.Options, fence *leader.Fence) (resourcelock.Interface, error) {
	e.events = &lateEvents{}
	var locks [2]resourcelock.Interface
	for i := range locks {
		lock, err := leaderelection.NewResourceLock(rest.CopyConfig(o.LeaderElectionConfig), e, leaderelection.Options{
			LeaderElection: true, LeaderElectionID: o.LeaderElectionID, LeaderElectionNamespace: o.LeaderElectionNamespace,
			RenewDeadline: *o.RenewDeadline,
		})
		if err != nil {
			return nil, err
		}
		locks[i] = lock
	}
	return fence.Guard(locks[0], locks[1], *o.RenewDeadline), nil
}

// recordEvents has the events of the election be recorded by the manager.
func (e *election) recordEvents(m recorder.Provider) {
	if e.events != nil {
		//lint:ignore SA1019 the lock takes such a recorder
		e.events.EventRecorder = m.GetEventRecorderFor("karve")
	}
}
