package azureemulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// answered is a page of the graph.
type answered struct {
	TotalRecords, Count int
	SkipToken           *string `json:"$skipToken"`
	Data                []json.RawMessage
}

// ask queries the graph; options are more of the request's options.
func (b *bubble) askGraph(query, options string) (answered, int, http.Header, string) {
	b.t.Helper()
	b.token = b.identity.issue("again", time.Now())
	body := fmt.Sprintf(`{"subscriptions":[%q],"query":%q,"options":{"resultFormat":"objectArray"%s}}`, b.options.SubscriptionID, query, options)
	w := b.send("POST", "/providers/Microsoft.ResourceGraph/resources?api-version=2024-04-01", body)
	var a answered
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		b.t.Fatalf("%v: %s", err, w.Body)
	}
	return a, w.Code, w.Header(), w.Body.String()
}

// theirs is the query that Karpenter's provider lists machines by.
func (b *bubble) theirs(kind string) string {
	return fmt.Sprintf(`Resources | where type == "%s" | where resourceGroup == "%s" | where tags has_cs "karpenter.sh_nodepool" | where not(tags has_cs "karpenter.azure.com_aksmachine_nodeclaim")`,
		kind, strings.ToLower(b.options.NodeResourceGroup))
}

// until asks every second until as many rows are shown as wanted, and says how long it took.
func (b *bubble) until(query string, rows int) time.Duration {
	b.t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Second) {
		if a, _, _, _ := b.askGraph(query, ""); a.Count == rows {
			return time.Since(begun)
		}
		if time.Since(begun) > 5*time.Minute {
			b.t.Fatalf("%d rows never came", rows)
		}
	}
}

// The graph shows machines and interfaces some seconds after they came, and some seconds after
// they went; as the SDK reads machines, and with nothing that is secret.
func TestGraphLags(t *testing.T) {
	inBubble(t, Options{}, func(b *bubble) {
		query := b.theirs("microsoft.compute/virtualmachines")
		create := func(name, tags string) {
			body := strings.Replace(b.machine(name), `"tags":{`, `"tags":{`+tags+`,`, 1)
			body = strings.Replace(body, `"adminUsername"`, `"customData":"aGVsbG8=","adminUsername"`, 1)
			if code, text, err := b.try("PUT", b.path(vmKind, name), body); err != nil || code != http.StatusCreated {
				t.Fatalf("%d %s %v", code, text, err)
			}
		}
		b.until(query, 0)
		create("vm", `"karpenter.sh_nodepool":"np"`)
		create("aks", `"karpenter.sh_nodepool":"np","karpenter.azure.com_aksmachine_nodeclaim":"a"`)
		create("other", `"karpenter.sh_nodepools":"np"`)
		if took := b.until(query, 1); took == 0 || took > graphLag+graphLook {
			t.Errorf("it came after %v", took)
		}
		a, _, _, text := b.askGraph(query, "")
		var vm armcompute.VirtualMachine
		if err := json.Unmarshal(a.Data[0], &vm); err != nil || vm.ID == nil || !strings.EqualFold(*vm.Name, "vm") || *vm.Tags["karpenter.sh_nodepool"] != "np" || vm.Properties.HardwareProfile == nil || vm.Properties.TimeCreated == nil {
			t.Errorf("%v: %s", err, a.Data[0])
		}
		if strings.Contains(text, "aGVsbG8=") || !strings.Contains(text, `"resourceGroup":"`+strings.ToLower(b.options.NodeResourceGroup)) {
			t.Errorf("the answer is %s", text)
		}
		time.Sleep(10 * time.Minute)
		if a, _, _, _ := b.askGraph(`Resources | where type =~ 'Microsoft.Network/networkInterfaces'`, ""); a.Count != 3 {
			t.Errorf("%d interfaces", a.Count)
		}
		b.token = b.identity.issue("again", time.Now())
		b.try("DELETE", b.path(vmKind, "vm"), "")
		for b.named("vm").Name != "" {
			time.Sleep(time.Second)
		}
		if took := b.until(query, 0); took == 0 || took > graphLag+graphLook {
			t.Errorf("it was gone after %v", took)
		}
		time.Sleep(time.Hour) // nobody asks, and nothing is followed
		b.mu.Lock()
		defer b.mu.Unlock()
		if s := b.graph.rows; s != nil {
			t.Errorf("%d rows are kept", len(s))
		}
	})
}

// Pages follow each other by tokens that are good for one query; what is asked too often or not
// understood is refused in the service's form.
func TestGraphPagesAndRefusals(t *testing.T) {
	inBubble(t, Options{Throttle: true}, func(b *bubble) {
		for _, name := range []string{"c", "a", "b"} {
			b.running(name)
		}
		const machines = `resources | where type=='microsoft.compute/virtualmachines'`
		b.until(machines, 3)
		seen, token := "", ""
		for pages := 0; pages == 0 || token != ""; pages++ {
			a, code, _, text := b.askGraph(machines, `,"$top":2`+token)
			if code != http.StatusOK || a.TotalRecords != 3 || pages > 1 {
				t.Fatalf("page %d: %d %s", pages, code, text)
			}
			for _, row := range a.Data {
				var vm struct{ Name string }
				if err := json.Unmarshal(row, &vm); err != nil {
					t.Fatal(err)
				}
				seen += vm.Name
			}
			if token = ""; a.SkipToken != nil {
				token = fmt.Sprintf(`,"$skipToken":%q`, *a.SkipToken)
				if _, code, _, _ := b.askGraph(machines+` | where name != 'a'`, token); code != http.StatusBadRequest {
					t.Errorf("another query's token: %d", code)
				}
			}
		}
		if seen != "abc" {
			t.Errorf("pages have %s", seen)
		}
		for _, wrong := range []string{"", "ResourceContainers", "Resources | project name", "Resources | where nothing == 'a'", "Resources | where name == a", "Resources | where name == 'a' and type == 'b'"} {
			time.Sleep(time.Second)
			if _, code, _, text := b.askGraph(wrong, ""); code != http.StatusBadRequest || !strings.Contains(text, "ParserFailure") {
				t.Errorf("%q: %d %s", wrong, code, text)
			}
		}
		time.Sleep(time.Minute)
		for i := range graphQueries + 1 {
			_, code, header, _ := b.askGraph(machines, "")
			if want := map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[i < graphQueries]; code != want || header.Get("x-ms-user-quota-resets-after") != "00:00:05" ||
				header.Get("x-ms-user-quota-remaining") != fmt.Sprint(max(graphQueries-1-i, 0)) {
				t.Fatalf("query %d: %d %v", i, code, header)
			}
		}
		time.Sleep(graphPeriod)
		if _, code, _, _ := b.askGraph(machines, ""); code != http.StatusOK {
			t.Errorf("later: %d", code)
		}
	})
}

func TestGraphConditions(t *testing.T) {
	row := map[string]any{"name": "VM-1", "type": "microsoft.compute/virtualmachines", "tags": map[string]any{"karpenter.sh_nodepool": "np's"}}
	for query, holds := range map[string]bool{
		`Resources | where name == 'VM-1'`:                              true,
		`Resources | where name == 'vm-1'`:                              false,
		`Resources | where name =~ "vm-1" | where name !~ 'x'`:          true,
		`Resources | where not(name == tolower('VM-1'))`:                true,
		`Resources | where tags has_cs 'karpenter.sh_nodepool'`:         true,
		`Resources | where tags has_cs 'karpenter'`:                     true,
		`Resources | where tags has_cs 'nodepoo'`:                       false,
		`Resources | where tags has_cs 'Karpenter'`:                     false,
		`Resources | where tags has 'Karpenter'`:                        true,
		`Resources | where tags has_cs 'np\'s' | where name != "a|b"`:   true,
		`Resources | where type != 'microsoft.compute/virtualmachines'`: false,
	} {
		conditions, err := readKQL(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
		all := true
		for _, c := range conditions {
			all = all && c.holds(row)
		}
		if all != holds {
			t.Errorf("%s: %v, want %v", query, all, holds)
		}
	}
}
