// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/base64"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// An Encoder caches what it wrote last: nodes that are launched together differ in few settings,
// and encoding them is most of the work of a launch request. The zero Encoder works, and is safe
// for concurrent use.
type Encoder struct {
	mu      sync.Mutex
	written map[cacheKey]encoded
}

// A cacheKey is a hint that nodes may be equal. The cache holds one result for each.
type cacheKey struct {
	contract              Contract
	size, version, labels string
}

// An encoded is a node and its encoded custom data.
type encoded struct {
	node NodeConfig
	data string
}

// maxEncoded limits the cache: a result takes about 20 KB.
const maxEncoded = 256

// CustomData is like Encode, with the result in base64, as Azure's API requires.
func (e *Encoder) CustomData(n NodeConfig, c Contract) (string, error) {
	k := cacheKey{c, n.Size, n.ImageVersion, pairs(n.Labels, "", ",")}
	e.mu.Lock()
	last, known := e.written[k]
	e.mu.Unlock()
	if known && reflect.DeepEqual(last.node, n) {
		return last.data, nil
	}
	raw, err := Encode(n, c)
	if err != nil {
		return "", err
	}
	data := base64.StdEncoding.EncodeToString(raw)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.written == nil || len(e.written) >= maxEncoded {
		e.written = map[cacheKey]encoded{}
	}
	e.written[k] = encoded{n.clone(), data}
	return data, nil
}

// clone returns a copy that shares nothing with n that a caller may change.
func (n NodeConfig) clone() NodeConfig {
	n.CA, n.Labels, n.Taints = slices.Clone(n.CA), maps.Clone(n.Labels), slices.Clone(n.Taints)
	n.Kubelet, n.OS, n.LocalDNS = n.Kubelet.DeepCopy(), n.OS.DeepCopy(), n.LocalDNS.DeepCopy()
	n.Cloud.Environment = slices.Clone(n.Cloud.Environment)
	return n
}
