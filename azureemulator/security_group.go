// SPDX-License-Identifier: Apache-2.0

package azureemulator

// nsg is a network security group. The emulator filters no traffic.
type nsg struct{ common }

// securityGroups are those of the subscription.
type securityGroups struct {
	byKey map[string]*nsg
	sub   *subscription
	clock *clock
}

func (sg *securityGroups) routes() []route {
	return []route{
		azure("GET", networkIn+"networksecuritygroups", "SecurityGroups.List", reads, sg.list),
		azure("GET", networkIn+"networksecuritygroups/{nsg}", "SecurityGroups.Get", reads, sg.get),
	}
}

// exists reports whether id is that of a group.
func (sg *securityGroups) exists(id string) bool {
	k, _ := keyOfID(id, "Microsoft.Network/networkSecurityGroups")
	return sg.byKey[k] != nil
}

func (sg *securityGroups) add(name string) (id string) {
	group := sg.sub.nodeGroup
	id = sg.sub.resourceID(group, "Microsoft.Network", "networkSecurityGroups", name)
	sg.byKey[key(group, name)] = &nsg{common: sg.sub.newCommon(id, name, group)}
	return id
}

func (g *nsg) view() any {
	return g.common.view("Microsoft.Network/networkSecurityGroups", map[string]any{
		"provisioningState": succeeded, "securityRules": []any{},
	})
}

func (sg *securityGroups) list(r *request) (reply, error) {
	sg.clock.Lock()
	defer sg.clock.Unlock()
	return listAll(sg.sub, r, sg.byKey, (*nsg).view)
}

func (sg *securityGroups) get(r *request) (reply, error) {
	sg.clock.Lock()
	defer sg.clock.Unlock()
	return show(find(sg.sub, r, sg.byKey, "Microsoft.Network/networkSecurityGroups", "nsg"))
}
