package azureemulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// store is everything that exists in the subscription. Server.mu guards it.
// Resources are kept under their key: resource group and name, lower case.
type store struct {
	timeScale  float64
	operations operations
	throttles  throttles
	faults     []*fault
	quirks     map[string]*quirk // by name
	retired    []string          // patterns of sizes that are not sold for now

	groups         map[string]*group // by lower-case name
	vms            map[string]*vm
	hosts          map[string]*vm // by lower-case computer name
	nics           map[string]*nic
	disks          map[string]*disk
	encryptionSets map[string]*common
	vnets          map[string]*vnet
	nsgs           map[string]*nsg
	loadBalancers  map[string]*loadBalancer
	pools          map[string]*agentPool  // of the cluster, by lower-case name
	machines       map[string]*aksMachine // by pool and name, lower case

	quota        quota
	stockouts    []*Stockout
	restrictions []Restriction
	images       []imageVersions
}

func newStore(o Options) store {
	return store{
		timeScale:      o.TimeScale,
		operations:     operations{byID: map[string]*operation{}},
		throttles:      throttles{enforced: o.Throttle, buckets: map[string]*bucket{}},
		groups:         map[string]*group{},
		vms:            map[string]*vm{},
		hosts:          map[string]*vm{},
		nics:           map[string]*nic{},
		disks:          map[string]*disk{},
		encryptionSets: map[string]*common{},
		vnets:          map[string]*vnet{},
		nsgs:           map[string]*nsg{},
		loadBalancers:  map[string]*loadBalancer{},
		pools:          map[string]*agentPool{},
		machines:       map[string]*aksMachine{},
		restrictions:   slices.Clone(o.Restrictions),
		images:         publishedImages(),
	}
}

// SetTimeScale changes the pace of what begins from now on.
func (s *Server) SetTimeScale(scale float64) error {
	if err := validScale(scale); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timeScale = scale
	return nil
}

// key is where a resource of a group is kept.
func key(group, name string) string { return strings.ToLower(group) + "/" + strings.ToLower(name) }

// common is what every resource has.
type common struct {
	id, name, group string // canonical spelling
	location        string
	tags            map[string]string
	etag            string
	created         time.Time
	listed          rendering
}

// ref is how Azure's JSON points at another resource.
func ref(id string) map[string]string { return map[string]string{"id": id} }

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

// group is a resource group.
type group struct{ name, location string }

// groupOf finds the request's resource group, or refuses as Azure does.
// Callers hold mu.
func (s *Server) groupOf(r *request) (*group, error) {
	g, exists := s.groups[strings.ToLower(r.params["group"])]
	if !exists {
		return nil, notFound("ResourceGroupNotFound", "Resource group '%s' could not be found.", r.params["group"])
	}
	return g, nil
}

// find looks a named resource up in its group.
func find[T any](s *Server, r *request, resources map[string]T, kind, param string) (T, error) {
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

// resourceID builds a canonical id. parts are type, name, subtype, name, …
func (s *Server) resourceID(group, namespace string, parts ...string) string {
	return "/subscriptions/" + s.options.SubscriptionID + "/resourceGroups/" + group +
		"/providers/" + namespace + "/" + strings.Join(parts, "/")
}

// keyOfID is the key of the resource a client refers to by id, if the id is of
// the wanted type ("Microsoft.Network/networkInterfaces").
func keyOfID(id, kind string) (string, bool) {
	segments := strings.Split(strings.Trim(id, "/"), "/")
	if len(segments) != 8 || !strings.EqualFold(segments[5]+"/"+segments[6], kind) {
		return "", false
	}
	return key(segments[3], segments[7]), true
}

// list renders one page of resources, those of the request's group if it names
// one, in order of their keys. The next page begins after the last key shown,
// so that resources that come and go in between shift nothing. Callers hold mu.
func list[T any](s *Server, r *request, resources map[string]T, view func(T) (json.RawMessage, error)) (reply, error) {
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
func listUnder[T any](s *Server, r *request, prefix string, resources map[string]T, view func(T) (json.RawMessage, error)) (reply, error) {
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

// page cuts keys off after a page, and links to the next.
func (s *Server) page(keys []string, r *request) (shown []string, next string) {
	if len(keys) <= s.options.PageSize {
		return keys, ""
	}
	shown = keys[:s.options.PageSize]
	return shown, s.nextLink(r, shown[len(shown)-1])
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

func (s *Server) nextLink(r *request, last string) string {
	query := maps.Clone(r.query)
	query.Set("$skiptoken", last)
	return s.url + r.http.URL.Path + "?" + url.Values(query).Encode()
}

// listAll renders the resources of the request's group on one page.
func listAll[T any](s *Server, r *request, resources map[string]T, view func(T) any) (reply, error) {
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

// accepted is the reply to a DELETE or POST that goes on as op.
func (s *Server) accepted(op *operation) (reply, error) {
	header := http.Header{}
	s.announce(op, header)
	return reply{status: http.StatusAccepted, header: header}, nil
}
