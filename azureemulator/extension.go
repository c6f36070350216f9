// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

const extensionKind = vmKind + "/extensions"

// extension is a VM extension. It installs nothing; it takes its time and its
// place in the listing.
type extension struct {
	common
	properties map[string]any // as asked, without protectedSettings
	state      string
}

// extensions answers requests about the extensions of VMs.
type extensions struct {
	vms     *virtualMachines
	ops     *operations
	sub     *subscription
	clock   *clock
	latency Distribution // of installing and removing one
}

func (ex *extensions) routes() []route {
	const extension = computeIn + "virtualmachines/{vm}/extensions"
	return []route{
		azure("GET", extension, "VirtualMachineExtensions.List", readVM, ex.list),
		azure("PUT", extension+"/{extension}", "VirtualMachineExtensions.CreateOrUpdate", updateVM, ex.put),
		azure("PATCH", extension+"/{extension}", "VirtualMachineExtensions.Update", updateVM, ex.patch),
		azure("GET", extension+"/{extension}", "VirtualMachineExtensions.Get", readVM, ex.get),
		azure("DELETE", extension+"/{extension}", "VirtualMachineExtensions.Delete", updateVM, ex.deleteExtension),
	}
}

type extensionSpec struct {
	Location   string            `json:"location"`
	Tags       map[string]string `json:"tags"`
	Properties map[string]any    `json:"properties"`
}

func readExtension(body []byte) (extensionSpec, error) {
	var spec extensionSpec
	if err := json.Unmarshal(body, &spec); err != nil {
		return spec, invalidContent(err)
	}
	delete(spec.Properties, "protectedSettings")
	return spec, nil
}

// parentVM finds the VM of an extension. Callers hold the lock.
func (ex *extensions) parentVM(r *request) (*vm, error) {
	g, err := ex.sub.groupOf(r)
	if err != nil {
		return nil, err
	}
	v := ex.vms.in(g.name, r.params["vm"])
	if v == nil {
		return nil, parentNotFound(vmKind, r.params["vm"])
	}
	return v, nil
}

func (ex *extensions) find(r *request) (*extension, error) {
	v, err := ex.parentVM(r)
	if err != nil {
		return nil, err
	}
	e := v.extensions[strings.ToLower(r.params["extension"])]
	if e == nil {
		return nil, resourceNotFound(extensionKind, v.name+"/"+r.params["extension"], v.group)
	}
	return e, nil
}

func (ex *extensions) put(r *request) (reply, error) {
	spec, err := readExtension(r.body)
	if err != nil {
		return reply{}, err
	}
	ex.clock.Lock()
	defer ex.clock.Unlock()
	v, err := ex.parentVM(r)
	if err != nil {
		return reply{}, err
	}
	if v.power == deallocated || v.state == deleting {
		return reply{}, conflict("OperationNotAllowed", "Cannot modify extensions in the VM when the VM is not running: VM '%s' is deallocated or being deleted.", v.name)
	}
	for _, required := range []string{"publisher", "type", "typeHandlerVersion"} {
		if text, _ := spec.Properties[required].(string); text == "" {
			return reply{}, invalidParameter(required, "Required parameter '%s' is missing (null).", required)
		}
	}
	name, code := r.params["extension"], http.StatusOK
	e := v.extensions[strings.ToLower(name)]
	if e == nil {
		id := ex.sub.resourceID(v.group, "Microsoft.Compute", "virtualMachines", v.name, "extensions", name)
		e, code = &extension{common: ex.sub.newCommon(id, name, v.group)}, http.StatusCreated
		v.extensions[strings.ToLower(name)] = e
	}
	e.tags, e.properties, e.state = spec.Tags, spec.Properties, creating
	op := ex.settle(e)
	header := http.Header{}
	ex.ops.announce(op, header)
	return answer(code, header, e.view())
}

// settle has the extension succeed after a while.
func (ex *extensions) settle(e *extension) *operation {
	return ex.ops.run("Microsoft.Compute", computePace, ex.latency, func() { e.state = succeeded })
}

// patch answers 200 as Compute does, and takes its time all the same.
func (ex *extensions) patch(r *request) (reply, error) {
	spec, err := readExtension(r.body)
	if err != nil {
		return reply{}, err
	}
	ex.clock.Lock()
	defer ex.clock.Unlock()
	e, err := ex.find(r)
	if err != nil {
		return reply{}, err
	}
	if spec.Tags != nil {
		e.tags = spec.Tags
	}
	e.properties = merged(e.properties, spec.Properties)
	e.state = updating
	header := http.Header{}
	ex.ops.announce(ex.settle(e), header)
	return answer(http.StatusOK, header, e.view())
}

func (ex *extensions) get(r *request) (reply, error) {
	ex.clock.Lock()
	defer ex.clock.Unlock()
	e, err := ex.find(r)
	if err != nil {
		return reply{}, err
	}
	return ok(e.view())
}

func (ex *extensions) list(r *request) (reply, error) {
	ex.clock.Lock()
	defer ex.clock.Unlock()
	v, err := ex.parentVM(r)
	if err != nil {
		return reply{}, err
	}
	values := []any{}
	for _, k := range slices.Sorted(maps.Keys(v.extensions)) {
		values = append(values, v.extensions[k].view())
	}
	return ok(map[string]any{"value": values})
}

func (ex *extensions) deleteExtension(r *request) (reply, error) {
	ex.clock.Lock()
	defer ex.clock.Unlock()
	v, err := ex.parentVM(r)
	if err != nil {
		return reply{}, err
	}
	k := strings.ToLower(r.params["extension"])
	e := v.extensions[k]
	if e == nil {
		return reply{status: http.StatusNoContent}, nil
	}
	e.state = deleting
	op := ex.ops.begin("Microsoft.Compute", computePace)
	ex.clock.later(ex.latency, func() {
		if v.extensions[k] == e {
			delete(v.extensions, k)
		}
		ex.ops.finish(op, nil)
	})
	return ex.ops.accepted(op)
}

func (e *extension) view() any {
	properties := maps.Clone(e.properties)
	if properties == nil {
		properties = map[string]any{}
	}
	properties["provisioningState"] = e.state
	return e.common.view(extensionKind, properties)
}
