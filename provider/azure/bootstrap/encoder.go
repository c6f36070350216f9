// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/base64"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// An Encoder remembers what it wrote last: machines that are bought together differ in little
// that they must know, and writing it is most of the work of asking for one. The zero Encoder
// works, and many may use it at a time.
type Encoder struct {
	mu      sync.Mutex
	written map[kind]letter
}

// kind is a hint at nodes that are the same. One letter is kept for each.
type kind struct {
	contract              Contract
	size, version, labels string
}

// A letter is a node and what was written for it.
type letter struct {
	node Node
	data string
}

// keptLetters bounds what is remembered: some 20 KB each.
const keptLetters = 256

// CustomData is Encode in base64, as Azure takes it.
func (e *Encoder) CustomData(n Node, c Contract) (string, error) {
	k := kind{c, n.Size, n.ImageVersion, pairs(n.Labels, "", ",")}
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
	if e.written == nil || len(e.written) >= keptLetters {
		e.written = map[kind]letter{}
	}
	e.written[k] = letter{n.clone(), data}
	return data, nil
}

// clone shares nothing with n that somebody may change.
func (n Node) clone() Node {
	n.CA, n.Labels, n.Taints = slices.Clone(n.CA), maps.Clone(n.Labels), slices.Clone(n.Taints)
	n.Kubelet, n.OS, n.LocalDNS = n.Kubelet.DeepCopy(), n.OS.DeepCopy(), n.LocalDNS.DeepCopy()
	n.Cloud.Environment = slices.Clone(n.Cloud.Environment)
	return n
}
