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

// parentVM finds the machine of an extension. Callers hold mu.
func (s *Server) parentVM(r *request) (*vm, error) {
	g, err := s.groupOf(r)
	if err != nil {
		return nil, err
	}
	v := s.vms[key(g.name, r.params["vm"])]
	if v == nil {
		return nil, parentNotFound(vmKind, r.params["vm"])
	}
	return v, nil
}

func (s *Server) findExtension(r *request) (*extension, error) {
	v, err := s.parentVM(r)
	if err != nil {
		return nil, err
	}
	e := v.extensions[strings.ToLower(r.params["extension"])]
	if e == nil {
		return nil, resourceNotFound(extensionKind, v.name+"/"+r.params["extension"], v.group)
	}
	return e, nil
}

func (s *Server) putExtension(r *request) (reply, error) {
	spec, err := readExtension(r.body)
	if err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.parentVM(r)
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
		id := s.resourceID(v.group, "Microsoft.Compute", "virtualMachines", v.name, "extensions", name)
		e, code = &extension{common: s.newCommon(id, name, v.group)}, http.StatusCreated
		v.extensions[strings.ToLower(name)] = e
	}
	e.tags, e.properties, e.state = spec.Tags, spec.Properties, creating
	op := s.settleExtension(e)
	header := http.Header{}
	s.announce(op, header)
	return answer(code, header, e.view())
}

// settleExtension has the extension succeed after a while.
func (s *Server) settleExtension(e *extension) *operation {
	op := s.begin("Microsoft.Compute", computePace)
	s.later(s.options.Latency.Extension, func() {
		e.state = succeeded
		s.operations.finish(op, nil)
	})
	return op
}

// patchExtension answers 200 as Compute does, and takes its time all the same.
func (s *Server) patchExtension(r *request) (reply, error) {
	spec, err := readExtension(r.body)
	if err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.findExtension(r)
	if err != nil {
		return reply{}, err
	}
	if spec.Tags != nil {
		e.tags = spec.Tags
	}
	e.properties = merged(e.properties, spec.Properties)
	e.state = updating
	header := http.Header{}
	s.announce(s.settleExtension(e), header)
	return answer(http.StatusOK, header, e.view())
}

func (s *Server) getExtension(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.findExtension(r)
	if err != nil {
		return reply{}, err
	}
	return ok(e.view())
}

func (s *Server) listExtensions(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.parentVM(r)
	if err != nil {
		return reply{}, err
	}
	values := []any{}
	for _, k := range slices.Sorted(maps.Keys(v.extensions)) {
		values = append(values, v.extensions[k].view())
	}
	return ok(map[string]any{"value": values})
}

func (s *Server) deleteExtension(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.parentVM(r)
	if err != nil {
		return reply{}, err
	}
	k := strings.ToLower(r.params["extension"])
	e := v.extensions[k]
	if e == nil {
		return reply{status: http.StatusNoContent}, nil
	}
	e.state = deleting
	op := s.begin("Microsoft.Compute", computePace)
	s.later(s.options.Latency.Extension, func() {
		if v.extensions[k] == e {
			delete(v.extensions, k)
		}
		s.operations.finish(op, nil)
	})
	return s.accepted(op)
}

func (e *extension) view() any {
	properties := maps.Clone(e.properties)
	if properties == nil {
		properties = map[string]any{}
	}
	properties["provisioningState"] = e.state
	return e.common.view(extensionKind, properties)
}
