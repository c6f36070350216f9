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
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
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

// scheduler is kube-scheduler's cache, snapshot and filter plugins over one cluster.
type scheduler struct {
	ctx       context.Context
	cancel    context.CancelFunc
	logger    klog.Logger
	cache     schedulercache.Cache
	snapshot  *schedulercache.Snapshot
	framework framework.Framework
	nodes     map[string]*corev1.Node
	pods      map[string]*corev1.Pod // bound ones, by UID
}

// filters are the plugins that check plans, in the scheduler's own order.
var filters = []string{
	names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts,
	names.NodeResourcesFit, names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
	names.PodTopologySpread, names.InterPodAffinity,
}

// newScheduler builds the plugins; others are the objects that they look up
// besides nodes and pods. That they cannot be built is a bug of this package.
func newScheduler(others []runtime.Object) *scheduler {
	metrics.Register()
	ctx, cancel := context.WithCancel(context.Background())
	s := &scheduler{
		ctx: ctx, cancel: cancel, logger: klog.FromContext(ctx),
		cache: schedulercache.New(ctx, nil, false), snapshot: schedulercache.NewEmptySnapshot(),
		nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{},
	}
	client := fake.NewSimpleClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
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

// close ends what the cache and the framework run in the background. They notice
// within a second; waiting for each would make a thousand replays take an hour.
func (s *scheduler) close() { s.cancel() }

func (s *scheduler) hasNode(node string) bool { return s.nodes[node] != nil }

func (s *scheduler) addNode(n *corev1.Node) {
	s.nodes[n.Name] = n
	s.cache.AddNode(s.logger, n)
}

// removeNode removes a node and its pods.
func (s *scheduler) removeNode(name string) {
	for uid, p := range s.pods {
		if p.Spec.NodeName == name {
			s.remove(uid)
		}
	}
	must(s.cache.RemoveNode(s.logger, s.nodes[name]), "removing node "+name)
	delete(s.nodes, name)
}

// bind puts the pod on the node without asking.
func (s *scheduler) bind(p *corev1.Pod, node string) {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	must(s.cache.AddPod(s.logger, p), "binding pod "+p.Name)
	s.pods[string(p.UID)] = p
}

// remove deletes a bound pod; one that is not there is none to delete.
func (s *scheduler) remove(uid string) {
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

// refusal is a filter's rejection.
type refusal struct{ plugin, reason string }

// refuses runs the filters for the pod on one node, as things stand; nil means accepted.
func (s *scheduler) refuses(p *corev1.Pod, node string) *refusal {
	must(s.cache.UpdateSnapshot(s.logger, s.snapshot), "taking a snapshot")
	info, err := s.snapshot.Get(node)
	if err != nil {
		return &refusal{Plan, err.Error()}
	}
	state := framework.NewCycleState()
	only, status, _ := s.framework.RunPreFilterPlugins(s.ctx, state, p)
	if status.IsSuccess() && !only.AllNodes() && !only.NodeNames.Has(node) {
		return &refusal{names.NodeAffinity, "the pod names other nodes"}
	}
	if status.IsSuccess() {
		status = s.framework.RunFilterPlugins(s.ctx, state, p, info)
	}
	if status.IsSuccess() {
		return nil
	}
	return &refusal{status.Plugin(), strings.Join(status.Reasons(), "; ")}
}

// startDaemon keeps room on a node for a DaemonSet's pod, if the node takes it.
// It does not check for room: the other pods then do not fit. It binds no pod, because
// the pod's labels are unknown and selectors like app!=web would count it;
// only its host ports, if any, have a holder.
func (s *scheduler) startDaemon(p, holder *corev1.Pod, node string) {
	if no := s.refuses(p, node); no != nil && (no.plugin == names.TaintToleration || no.plugin == names.NodeAffinity) {
		return
	}
	less := s.nodes[node].DeepCopy()
	take := func(name corev1.ResourceName, n resource.Quantity) {
		left := less.Status.Allocatable[name]
		left.Sub(n)
		less.Status.Allocatable[name] = left
	}
	if holder != nil {
		s.bind(holder, node) // one of the node's pods, too
	} else {
		take(corev1.ResourcePods, resource.MustParse("1"))
	}
	for name, n := range p.Spec.Containers[0].Resources.Requests {
		take(name, n)
	}
	s.update(less)
}

// untaint takes the taints of that key off a node.
func (s *scheduler) untaint(node, key string) {
	n := s.nodes[node].DeepCopy()
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	s.update(n)
}

func (s *scheduler) update(n *corev1.Node) {
	s.cache.UpdateNode(s.logger, s.nodes[n.Name], n)
	s.nodes[n.Name] = n
}

// bindAccepted binds every accepted pod, repeats until none is accepted, and returns
// the others.
func (s *scheduler) bindAccepted(waiting []placement, at stage, restart bool) []placement {
	waiting = slices.Clone(waiting)
	for {
		before := len(waiting)
		for i := 0; i < len(waiting); i++ {
			if waiting[i].moves() && at < drained || s.refuses(waiting[i].pod, waiting[i].node) != nil {
				continue
			}
			s.bind(waiting[i].pod, waiting[i].node)
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
func (s *scheduler) rejections(waiting []placement) []Rejection {
	var out []Rejection
	for _, p := range waiting {
		no := s.refuses(p.pod, p.node)
		out = append(out, Rejection{Pod: p.ref, Node: p.node, Plugin: no.plugin, Reason: no.reason})
	}
	return out
}
