// SPDX-License-Identifier: Apache-2.0

package azureemulator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/azureemulator"
)

// call makes a plain request and decodes the JSON it is answered with.
func (a *azure) call(method, path, token, body string) (*http.Response, map[string]any) {
	a.t.Helper()
	request, err := http.NewRequestWithContext(a.t.Context(), method, a.URL()+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := a.Client().Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	var decoded map[string]any
	if len(raw) > 0 && !bytes.HasPrefix(raw, []byte("[")) {
		if err := json.Unmarshal(raw, &decoded); err != nil {
			a.t.Fatalf("%s %s answered %q: %v", method, path, raw, err)
		}
	}
	return response, decoded
}

// token gets a bearer token by hand.
func (a *azure) token() string {
	a.t.Helper()
	credential, err := a.Credential()
	if err != nil {
		a.t.Fatal(err)
	}
	token, err := credential.GetToken(a.t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://management.core.windows.net//.default"}})
	if err != nil {
		a.t.Fatal(err)
	}
	return token.Token
}

func (a *azure) vmPath(name string) string {
	return "/subscriptions/" + a.SubscriptionID() + "/RESOURCEGROUPS/" + a.group + "/providers/microsoft.compute/virtualmachines/" + name + "?api-version=2025-04-01"
}

func TestAuthentication(t *testing.T) {
	a := start(t, azureemulator.Options{})
	response, body := a.call("GET", a.vmPath("x"), "", "")
	if response.StatusCode != 401 || response.Header.Get("WWW-Authenticate") == "" || code(body) != "AuthenticationFailed" {
		t.Errorf("no token: %s %v", response.Status, body)
	}
	response, body = a.call("GET", a.vmPath("x"), "made-up", "")
	if response.StatusCode != 401 || code(body) != "InvalidAuthenticationToken" {
		t.Errorf("unknown token: %s %v", response.Status, body)
	}
	response, body = a.call("GET", a.vmPath("x"), a.token(), "")
	if response.StatusCode != 404 || response.Header.Get("x-ms-error-code") != "ResourceNotFound" || response.Header.Get("x-ms-request-id") == "" {
		t.Errorf("good token: %s %v", response.Status, body)
	}
	wrong := t.TempDir() + "/token"
	if err := os.WriteFile(wrong, []byte("not the token"), 0o600); err != nil {
		t.Fatal(err)
	}
	credential, err := azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
		ClientOptions: policy.ClientOptions{Cloud: a.Cloud(), Transport: a.Client()}, ClientID: a.ClientID(), TenantID: a.TenantID(),
		TokenFilePath: wrong, DisableInstanceDiscovery: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = credential.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"x/.default"}})
	var failed *azidentity.AuthenticationFailedError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "AADSTS70021") {
		t.Errorf("a foreign assertion got %v", err)
	}
}

// code is the error code of a body.
func code(body map[string]any) string {
	inner, _ := body["error"].(map[string]any)
	text, _ := inner["code"].(string)
	return text
}

func TestRevokedTokensAreRenewed(t *testing.T) {
	a := start(t, azureemulator.Options{})
	a.used("cores")
	before := a.Ledger().ByOperation["Identity.Token"]
	a.RevokeTokens()
	a.used("cores")
	if got := a.Ledger().ByOperation["Identity.Token"]; got != before+1 {
		t.Errorf("%d tokens issued after the revocation, want 1", got-before)
	}
}

// Every route must answer every body with a refusal in Azure's form, not with
// a panic, a lost lock or a 500.
func TestBadContent(t *testing.T) {
	a := start(t, azureemulator.Options{})
	a.mustCreate("vm", a.vmBody("Standard_D2s_v5", "1"))
	token := a.token()
	base := "/subscriptions/" + a.SubscriptionID() + "/resourceGroups/" + a.group + "/providers/"
	paths := []string{
		base + "Microsoft.Compute/virtualMachines/vm", base + "Microsoft.Compute/virtualMachines/new",
		base + "Microsoft.Compute/virtualMachines/vm/extensions/e", base + "Microsoft.Network/networkInterfaces/n",
	}
	bodies := []string{"", "{", "[]", "null", `"x"`, "{}", `{"properties":[]}`, `{"properties":{"storageProfile":7}}`, `{"location":"eastus","properties":{"ipConfigurations":[{}]}}`,
		`{"location":"eastus","zones":["1","2"],"properties":{"hardwareProfile":{"vmSize":"Standard_D2s_v5"},"storageProfile":{"osDisk":null}}}`,
		`{"location":"eastus","tags":{"a":1}}`, strings.Repeat("[", 20000)}
	for _, method := range []string{"PUT", "PATCH", "DELETE", "POST", "HEAD"} {
		for _, path := range paths {
			for _, body := range bodies {
				if method == "DELETE" && strings.HasSuffix(path, "/vm") {
					continue
				}
				response, decoded := a.call(method, path+"?api-version=1", token, body)
				if response.StatusCode >= 500 {
					t.Errorf("%s %s with %.60q: %s %v", method, path, body, response.Status, decoded)
				}
			}
		}
	}
	response, body := a.call("PUT", a.vmPath("new"), token, "{")
	if response.StatusCode != 400 || code(body) != "InvalidRequestContent" {
		t.Errorf("half an object: %s %v", response.Status, body)
	}
	response, body = a.call("GET", strings.TrimSuffix(a.vmPath("x"), "?api-version=2025-04-01"), token, "")
	if response.StatusCode != 400 || code(body) != "MissingApiVersionParameter" {
		t.Errorf("no api-version: %s %v", response.Status, body)
	}
	response, body = a.call("GET", "/subscriptions/x/locations?api-version=1", token, "")
	if response.StatusCode != 404 || code(body) != "SubscriptionNotFound" {
		t.Errorf("unknown subscription: %s %v", response.Status, body)
	}
	response, body = a.call("GET", base+"Microsoft.Quantum/workspaces?api-version=1", token, "")
	if response.StatusCode != 404 || code(body) != "InvalidResourceType" {
		t.Errorf("unknown type: %s %v", response.Status, body)
	}
}

func TestPrices(t *testing.T) {
	a := start(t, azureemulator.Options{})
	filter := "priceType eq 'Consumption' and currencyCode eq 'USD' and serviceFamily eq 'Compute' and serviceName eq 'Virtual Machines' and armRegionName eq 'eastus'"
	link := "/api/retail/prices?api-version=2023-01-01-preview&$filter=" + url.QueryEscape(filter)
	suffixes, onDemand, pages := map[string]int{}, map[string]int{}, 0
	for ; link != ""; pages++ {
		response, page := a.call("GET", link, "", "")
		if response.StatusCode != 200 {
			t.Fatalf("%s: %v", response.Status, page)
		}
		items := page["Items"].([]any)
		if int(page["Count"].(float64)) != len(items) || len(items) > 1000 {
			t.Errorf("page of %d rows says %v", len(items), page["Count"])
		}
		for _, item := range items {
			tally(item.(map[string]any), suffixes, onDemand)
		}
		next, _ := page["NextPageLink"].(string)
		link = strings.TrimPrefix(next, a.URL())
	}
	if pages < 3 || suffixes["spot"] < 1000 || suffixes["low"] < 1000 || suffixes["windows"] < 1000 || len(onDemand) < 1000 {
		t.Errorf("%d pages, %v, %d sizes", pages, suffixes, len(onDemand))
	}
	duplicates := 0
	for _, count := range onDemand {
		duplicates += count - 1
	}
	if duplicates == 0 {
		t.Errorf("no size has its meter twice")
	}
	for _, bad := range []string{"price gt 1", "colour eq 'red'", "armSkuName eq 'a' or armSkuName eq 'b'"} {
		if response, _ := a.call("GET", "/api/retail/prices?$filter="+url.QueryEscape(bad), "", ""); response.StatusCode != 400 {
			t.Errorf("filter %s: %s", bad, response.Status)
		}
	}
	_, page := a.call("GET", "/api/retail/prices?$filter="+url.QueryEscape("armRegionName eq 'eastus' and armSkuName eq 'Standard_D4s_v5' and meterName eq 'D4s v5'"), "", "")
	first := page["Items"].([]any)[0].(map[string]any)
	if first["retailPrice"] != 0.192 || first["location"] != "US East" || first["unitOfMeasure"] != "1 Hour" {
		t.Errorf("Standard_D4s_v5: %v", first)
	}
}

// Disks are priced by the month, and beside the disk itself the list has its mounts and its
// redundancy of zones.
func TestDiskPrices(t *testing.T) {
	a := start(t, azureemulator.Options{})
	filter := "serviceName eq 'Storage' and productName eq 'Premium SSD Managed Disks' and skuName eq 'P10 LRS' and armRegionName eq 'eastus'"
	_, page := a.call("GET", "/api/retail/prices?$filter="+url.QueryEscape(filter), "", "")
	prices := map[any]any{}
	for _, item := range page["Items"].([]any) {
		row := item.(map[string]any)
		prices[row["meterName"]] = row["retailPrice"]
		if row["unitOfMeasure"] != "1/Month" || row["armSkuName"] != "Premium_SSD_Managed_Disk_P10" {
			t.Errorf("row %v", row)
		}
	}
	if len(prices) != 2 || prices["P10 LRS Disk"] != 19.71 || prices["P10 LRS Disk Mount"] == nil {
		t.Errorf("prices of P10: %v", prices)
	}
}

func tally(item map[string]any, suffixes, onDemand map[string]int) {
	meter := item["meterName"].(string)
	switch {
	case strings.HasSuffix(item["productName"].(string), " Windows"):
		suffixes["windows"]++
	case strings.HasSuffix(meter, " Spot"):
		suffixes["spot"]++
	case strings.HasSuffix(meter, " Low Priority"):
		suffixes["low"]++
	default:
		onDemand[item["armSkuName"].(string)]++
	}
}

func TestFaults(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1})
	fault := func(f azureemulator.Fault) {
		t.Helper()
		if err := a.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}
	// The SDK tries again after a 503 and a 429; nobody sees them but the ledger.
	fault(azureemulator.Fault{Method: "PUT", Path: "/virtualMachines/vm$", Status: 503, RetryAfterSeconds: 0.01})
	fault(azureemulator.Fault{Method: "GET", Path: "/operations/", Status: 429, Times: 2, RetryAfterSeconds: 0.01, Flat: true, Code: "OperationNotAllowed"})
	a.mustCreate("vm", a.vmBody("Standard_D2s_v5", "1"))
	if l := a.Ledger(); l.Throttled != 2 || l.ByOperation["VirtualMachines.CreateOrUpdate"] != 2 || len(a.Faults()) != 0 {
		t.Errorf("ledger %+v, faults %v", l, a.Faults())
	}
	fault(azureemulator.Fault{Method: "GET", Path: "/virtualMachines/vm", Status: 403, Skip: 1})
	if _, err := a.vms.Get(t.Context(), a.group, "vm", nil); err != nil {
		t.Errorf("the fault should have skipped this: %v", err)
	}
	_, err := a.vms.Get(t.Context(), a.group, "vm", nil)
	wantCode(t, err, http.StatusForbidden, "AuthorizationFailed")

	// The request is carried out and its answer lost.
	fault(azureemulator.Fault{Method: "PUT", Path: "/virtualMachines/lost", Status: 400, Lose: true})
	_, err = a.create("lost", a.vmBody("Standard_D2s_v5", "1"))
	wantCode(t, err, http.StatusBadRequest, "BadRequest")
	if _, err := a.vms.Get(t.Context(), a.group, "lost", nil); err != nil {
		t.Errorf("the VM should be there: %v", err)
	}
	if a.AddFault(azureemulator.Fault{Path: "("}) == nil || a.AddFault(azureemulator.Fault{Status: 200}) == nil {
		t.Errorf("a nonsensical fault was accepted")
	}
}

func TestAdminEndpoint(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1})
	admin := func(method, path, body string) map[string]any {
		t.Helper()
		response, decoded := a.call(method, "/_emulator/"+path, "", body)
		if response.StatusCode != 200 {
			t.Errorf("%s %s: %s %v", method, path, response.Status, decoded)
		}
		return decoded
	}
	admin("POST", "stockouts", `{"size":"Standard_D2s_v5","zone":"1","mode":"ZonalAllocationFailed"}`)
	_, err := a.create("vm", a.vmBody("Standard_D2s_v5", "1"))
	wantCode(t, err, http.StatusOK, "ZonalAllocationFailed")
	a.mustRemove("vm")
	admin("DELETE", "stockouts?size=Standard_D2s_v5", "")
	admin("PUT", "quota", `{"name":"cores","limit":1}`)
	_, err = a.create("vm", a.vmBody("Standard_D2s_v5", "1"))
	wantCode(t, err, http.StatusConflict, "OperationNotAllowed")
	admin("PUT", "quota", `{"name":"cores","limit":100}`)
	admin("POST", "faults", `{"method":"GET","path":"/skus$","status":403,"times":1}`)
	admin("PUT", "throttling", `{"enabled":true}`)
	admin("PUT", "timescale", `{"scale":0.0001}`)
	admin("POST", "images", `{"definition":"V3*","version":"202601.01.0"}`)
	admin("POST", "subnets", `{"resourceGroup":"r","vnet":"v","name":"s","prefix":"10.9.0.0/24"}`)
	admin("POST", "tokens/revoke", "")
	a.mustCreate("spot", a.spot("Standard_D2s_v5", "1", "Delete"))
	admin("PUT", "timescale", `{"scale":1}`)
	admin("POST", "vms/spot/evict", "")
	events := admin("GET", "vms/spot/scheduledevents", "")
	event := events["Events"].([]any)[0].(map[string]any)
	if event["EventType"] != "Preempt" || event["EventStatus"] != "Scheduled" || event["NotBefore"] == "" {
		t.Errorf("scheduled event %v", event)
	}
	state := admin("GET", "state", "")
	if len(state["vms"].([]any)) != 1 || state["timeScale"] != 1.0 || state["throttling"] != true || len(state["faults"].([]any)) != 1 {
		t.Errorf("state %v", state)
	}
	admin("GET", "ledger", "")
	admin("GET", "invariants", "")
	admin("DELETE", "faults", "")
	for path, body := range map[string]string{
		"stockouts": `{"mode":"Never"}`, "faults": `{"status":9}`, "quota": `{"name":"bananas","limit":1}`, "timescale": `{"scale":-1}`,
		"images": `{"version":"latest"}`, "subnets": `{"prefix":"10.0.0.0/8"}`, "vms/nobody/evict": ``, "throttling": `{`,
	} {
		method := "POST"
		if path == "quota" || path == "timescale" || path == "throttling" {
			method = "PUT"
		}
		if response, decoded := a.call(method, "/_emulator/"+path, "", body); response.StatusCode != 400 {
			t.Errorf("%s with %s: %s %v", path, body, response.Status, decoded)
		}
	}
}

func TestLedgerCountsWhatANodeCosts(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1})
	before := a.Ledger()
	a.mustCreate("vm", a.vmBody("Standard_D2s_v5", "1"))
	after := a.Ledger()
	if writes := after.Writes - before.Writes; writes != 1 {
		t.Errorf("an inline VM took %d writes, want 1", writes)
	}
	if after.Reads <= before.Reads || after.ByOperation["Operations.Get"] == 0 {
		t.Errorf("polling was not counted: %+v", after)
	}
}

func TestFilesAreLeftWhereAsked(t *testing.T) {
	dir := t.TempDir()
	a := start(t, azureemulator.Options{Dir: dir})
	for _, file := range []string{"ca.pem", "token", "azure.json"} {
		if _, err := os.Stat(dir + "/" + file); err != nil {
			t.Error(err)
		}
	}
	for _, entry := range a.Environ() {
		t.Setenv(entry[:strings.Index(entry, "=")], entry[strings.Index(entry, "=")+1:])
	}
	// The environment is enough for another process's credential.
	credential, err := azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
		ClientOptions: policy.ClientOptions{Transport: a.Client()}, DisableInstanceDiscovery: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := armcompute.NewUsageClient(a.SubscriptionID(), credential, a.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.NewListPager("eastus", nil).NextPage(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []azureemulator.Options{
		{TimeScale: -1}, {SubnetPrefix: "nonsense"}, {SystemNodeSize: "Standard_Nothing"}, {Location: "mars"}, {Addr: "256.0.0.1:1"},
	} {
		if s, err := azureemulator.Start(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
			_ = s.Close()
		}
	}
}
