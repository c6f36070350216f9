// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// serve makes the factory's informers hand out exactly these objects, with no
// list, watch or goroutine behind them: a replay must not depend on when an event
// arrives, and thousands of them must not wait for any.
func serve(factory informers.SharedInformerFactory, objects []runtime.Object) {
	for _, kind := range []runtime.Object{
		&corev1.Namespace{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{},
		&storagev1.StorageClass{}, &storagev1.CSINode{},
	} {
		still := &informer{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
		factory.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return still })
	}
	for _, o := range objects {
		add(factory, o)
	}
}

func add(factory informers.SharedInformerFactory, o runtime.Object) {
	store := factory.InformerFor(o, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		panic("judge serves no objects of this kind")
	})
	must(store.GetIndexer().Add(o), "serving an object")
}

// informer is a SharedIndexInformer whose objects never change.
type informer struct {
	cache.SharedIndexInformer // nil: what is not here is not used
	indexer                   cache.Indexer
}

func (i *informer) GetIndexer() cache.Indexer { return i.indexer }

func (i *informer) GetStore() cache.Store { return i.indexer }

func (i *informer) HasSynced() bool { return true }

func (i *informer) AddIndexers(more cache.Indexers) error { return i.indexer.AddIndexers(more) }

// AddEventHandler tells the handler of every object, at once.
func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, o := range i.indexer.List() {
		handler.OnAdd(o, true)
	}
	return nil, nil
}
