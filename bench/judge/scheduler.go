// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Scheduler is kube-scheduler's cache, snapshot and filter plugins over one cluster.
type Scheduler struct {
	ctx       context.Context
	cancel    context.CancelFunc
	logger    klog.Logger
	cache     schedulercache.Cache
	snapshot  *schedulercache.Snapshot
	framework framework.Framework
	nodes     map[string]*corev1.Node
	pods      map[types.UID]*corev1.Pod // bound ones
	factory   informers.SharedInformerFactory
}

// filters are the plugins that check plans, in the scheduler's own order.
var filters = []string{
	names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts,
	names.NodeResourcesFit, names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
	names.PodTopologySpread, names.InterPodAffinity,
}

// newScheduler builds the plugins; others are the objects that they look up
// besides nodes and pods. That they cannot be built is a bug of this package.
func newScheduler(others []runtime.Object) *Scheduler {
	metrics.Register()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Scheduler{
		ctx: ctx, cancel: cancel, logger: klog.FromContext(ctx),
		cache: schedulercache.New(ctx, nil, false), snapshot: schedulercache.NewEmptySnapshot(),
		nodes: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{},
	}
	client := fake.NewSimpleClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	s.factory = factory
	serve(factory, others)
	var err error
	s.framework, err = schedulerruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile(),
		schedulerruntime.WithClientSet(client),
		schedulerruntime.WithInformerFactory(factory),
		schedulerruntime.WithSnapshotSharedLister(s.snapshot),
		schedulerruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
	)
	if err != nil {
		panic(fmt.Sprintf("building the scheduler's plugins: %v", err))
	}
	return s
}

// profile is the scheduler's default configuration, cut down to the filters.
func profile() *config.KubeSchedulerProfile {
	defaults, err := latest.Default()
	if err != nil {
		panic(fmt.Sprintf("reading the scheduler's defaults: %v", err))
	}
	p := defaults.Profiles[0].DeepCopy()
	var enabled []config.Plugin
	for _, name := range filters {
		enabled = append(enabled, config.Plugin{Name: name})
	}
	// The framework is not built without these two, though nothing is queued or bound.
	p.Plugins = &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
		Filter:    config.PluginSet{Enabled: enabled},
		PreFilter: config.PluginSet{Enabled: slices.DeleteFunc(slices.Clone(enabled), func(p config.Plugin) bool {
			return slices.Contains([]string{names.NodeUnschedulable, names.NodeName, names.TaintToleration}, p.Name) // they have no PreFilter
		})},
	}
	p.PluginConfig = slices.DeleteFunc(p.PluginConfig, func(c config.PluginConfig) bool { return !slices.Contains(filters, c.Name) })
	return p
}

// Close ends what the cache and the framework run in the background. They notice
// within a second; waiting for each would make a thousand replays take an hour.
func (s *Scheduler) Close() { s.cancel() }

func (s *Scheduler) hasNode(node string) bool { return s.nodes[node] != nil }

// boundTo is the name of the node that the pod is bound to; empty when it is not bound.
func (s *Scheduler) boundTo(pod types.UID) string {
	if p := s.pods[pod]; p != nil {
		return p.Spec.NodeName
	}
	return ""
}

// Serve adds an object that nodes and pods refer to.
func (s *Scheduler) Serve(o runtime.Object) { add(s.factory, o) }

// AddNode adds a node.
func (s *Scheduler) AddNode(n *corev1.Node) {
	s.nodes[n.Name] = n
	s.cache.AddNode(s.logger, n)
}

// RemoveNode removes a node and its pods.
func (s *Scheduler) RemoveNode(name string) {
	for uid, p := range s.pods {
		if p.Spec.NodeName == name {
			s.remove(uid)
		}
	}
	must(s.cache.RemoveNode(s.logger, s.nodes[name]), "removing node "+name)
	delete(s.nodes, name)
}

// bind puts the pod on the node without asking.
func (s *Scheduler) bind(p *corev1.Pod, node string) {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	must(s.cache.AddPod(s.logger, p), "binding pod "+p.Name)
	s.pods[p.UID] = p
}

// remove deletes a bound pod; one that is not there is none to delete.
func (s *Scheduler) remove(uid types.UID) {
	if p := s.pods[uid]; p != nil {
		must(s.cache.RemovePod(s.logger, p), "removing pod "+p.Name)
		delete(s.pods, uid)
	}
}

// must stops at what only a bug of this package can cause.
func must(err error, act string) {
	if err != nil {
		panic(fmt.Sprintf("%s: %v", act, err))
	}
}

// Refusal is a filter's rejection.
type Refusal struct{ Plugin, Reason string }

// Refuses runs the filters for the pod on one node, as things stand; nil means accepted.
func (s *Scheduler) Refuses(p *corev1.Pod, node string) *Refusal {
	must(s.cache.UpdateSnapshot(s.logger, s.snapshot), "taking a snapshot")
	info, err := s.snapshot.Get(node)
	if err != nil {
		return &Refusal{Plan, err.Error()}
	}
	state := framework.NewCycleState()
	only, status, _ := s.framework.RunPreFilterPlugins(s.ctx, state, p)
	if status.IsSuccess() && !only.AllNodes() && !only.NodeNames.Has(node) {
		return &Refusal{names.NodeAffinity, "the pod names other nodes"}
	}
	if status.IsSuccess() {
		status = s.framework.RunFilterPlugins(s.ctx, state, p, info)
	}
	if status.IsSuccess() {
		return nil
	}
	return &Refusal{status.Plugin(), strings.Join(status.Reasons(), "; ")}
}

// Start keeps room on a node for a DaemonSet's pod, if the node takes it.
// It does not check for room: the other pods then do not fit. It binds no pod, because
// the pod's labels are unknown and selectors like app!=web would count it;
// only its host ports, if any, have a holder.
func (s *Scheduler) Start(d Daemon) {
	if no := s.Refuses(d.Pod, d.Node); no != nil && (no.Plugin == names.TaintToleration || no.Plugin == names.NodeAffinity) {
		return
	}
	less := s.nodes[d.Node].DeepCopy()
	if less.Status.Allocatable == nil {
		less.Status.Allocatable = corev1.ResourceList{}
	}
	take := func(name corev1.ResourceName, n resource.Quantity) {
		left := less.Status.Allocatable[name]
		left.Sub(n)
		less.Status.Allocatable[name] = left
	}
	if d.PortHolder != nil {
		s.bind(d.PortHolder, d.Node) // one of the node's pods, too
	} else {
		take(corev1.ResourcePods, resource.MustParse("1"))
	}
	for name, n := range podresource.PodRequests(d.Pod, podresource.PodResourcesOptions{}) {
		take(name, n)
	}
	s.update(less)
}

// untaint takes the taints of that key off a node.
func (s *Scheduler) untaint(node, key string) {
	n := s.nodes[node].DeepCopy()
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	s.update(n)
}

func (s *Scheduler) update(n *corev1.Node) {
	s.cache.UpdateNode(s.logger, s.nodes[n.Name], n)
	s.nodes[n.Name] = n
}

// bindAccepted binds every accepted pod, repeats until none is accepted, and returns
// the others.
func (s *Scheduler) bindAccepted(waiting []Placement, at stage, restart bool) []Placement {
	waiting = slices.Clone(waiting)
	for {
		before := len(waiting)
		for i := 0; i < len(waiting); i++ {
			if waiting[i].Moves && at < drained || s.Refuses(waiting[i].Pod, waiting[i].Node) != nil {
				continue
			}
			s.bind(waiting[i].Pod, waiting[i].Node)
			waiting = slices.Delete(waiting, i, i+1)
			i--
			if restart {
				i = -1
			}
		}
		if len(waiting) == before || len(waiting) == 0 {
			return waiting
		}
	}
}

// rejections says why each of the pods, none of which is accepted, is not.
func (s *Scheduler) rejections(waiting []Placement) []Rejection {
	var out []Rejection
	for _, p := range waiting {
		no := s.Refuses(p.Pod, p.Node)
		out = append(out, Rejection{Pod: p.ref(), Node: p.Node, Plugin: no.Plugin, Reason: no.Reason})
	}
	return out
}
