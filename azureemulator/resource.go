// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// common is what every resource has.
type common struct {
	id, name, group string // canonical spelling
	location        string
	tags            map[string]string
	etag            string
	created         time.Time
	listed          rendering
}

func (c common) view(kind string, properties map[string]any) map[string]any {
	view := map[string]any{
		"id": c.id, "name": c.name, "type": kind, "location": c.location,
		"etag": `W/"` + c.etag + `"`, "properties": properties,
	}
	if c.tags != nil {
		view["tags"] = c.tags
	}
	return view
}

// ref is how Azure's JSON points at another resource.
func ref(id string) map[string]string { return map[string]string{"id": id} }

// key is where a resource of a group is kept.
func key(group, name string) string { return strings.ToLower(group) + "/" + strings.ToLower(name) }

// keyOfID is the key of the resource a client refers to by id, if the id is of
// the wanted type ("Microsoft.Network/networkInterfaces").
func keyOfID(id, kind string) (string, bool) {
	segments := strings.Split(strings.Trim(id, "/"), "/")
	if len(segments) != 8 || !strings.EqualFold(segments[5]+"/"+segments[6], kind) {
		return "", false
	}
	return key(segments[3], segments[7]), true
}

// find looks a named resource up in its group.
func find[T any](s *subscription, r *request, resources map[string]T, kind, param string) (T, error) {
	var none T
	g, err := s.groupOf(r)
	if err != nil {
		return none, err
	}
	found, exists := resources[key(g.name, r.params[param])]
	if !exists {
		return none, resourceNotFound(kind, r.params[param], g.name)
	}
	return found, nil
}

// show answers with a resource that was looked up, or with the error of the lookup.
func show[T interface{ view() any }](found T, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	return ok(found.view())
}

// list renders one page of resources, those of the request's group if it names
// one, in order of their keys. The next page begins after the last key shown,
// so that resources that come and go in between shift nothing. Callers hold the lock.
func list[T any](s *subscription, r *request, resources map[string]T, view func(T) (json.RawMessage, error)) (reply, error) {
	prefix := ""
	if r.params["group"] != "" {
		g, err := s.groupOf(r)
		if err != nil {
			return reply{}, err
		}
		prefix = strings.ToLower(g.name) + "/"
	}
	return listUnder(s, r, prefix, resources, view)
}

// listUnder is list for resources whose keys begin with prefix.
func listUnder[T any](s *subscription, r *request, prefix string, resources map[string]T, view func(T) (json.RawMessage, error)) (reply, error) {
	keys, next := s.page(keysAfter(resources, prefix, r.query.Get("$skiptoken")), r)
	rows, size := make([]json.RawMessage, len(keys)), len(next)
	for i, k := range keys {
		row, err := view(resources[k])
		if err != nil {
			return reply{}, fmt.Errorf("encoding %s: %w", k, err)
		}
		rows[i], size = row, size+len(row)+1
	}
	var page bytes.Buffer
	page.Grow(size + 100)
	page.WriteString(`{"value":[`)
	for i, row := range rows {
		if i > 0 {
			page.WriteByte(',')
		}
		page.Write(row)
	}
	page.WriteByte(']')
	if next != "" {
		fmt.Fprintf(&page, `,"nextLink":%q`, next) // a URL has nothing that JSON spells otherwise
	}
	page.WriteByte('}')
	return reply{status: http.StatusOK, raw: page.Bytes()}, nil
}

// keysAfter are the keys with a prefix beyond the one that was shown last, in order.
func keysAfter[T any](resources map[string]T, prefix, last string) []string {
	var keys []string
	for k := range resources {
		if k > last && strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// listAll renders the resources of the request's group on one page.
func listAll[T any](s *subscription, r *request, resources map[string]T, view func(T) any) (reply, error) {
	g, err := s.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	values := []any{}
	for _, k := range slices.Sorted(maps.Keys(resources)) {
		if strings.HasPrefix(k, strings.ToLower(g.name)+"/") {
			values = append(values, view(resources[k]))
		}
	}
	return ok(map[string]any{"value": values})
}

// looks are what may change of how a resource looks without its etag.
type looks struct {
	etag, state, vm string
	nics            int
	disk            *disk
}

// A rendering is a resource's JSON while it looks the same: lists are long, and read often.
type rendering struct {
	looks looks
	raw   json.RawMessage
}

// of is the JSON of a view, made anew when the looks have changed.
func (c *rendering) of(now looks, view func() any) (json.RawMessage, error) {
	if c.raw != nil && c.looks == now {
		return c.raw, nil
	}
	raw, err := json.Marshal(view())
	if err != nil {
		return nil, err
	}
	c.looks, c.raw = now, raw
	return raw, nil
}
