// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"compress/gzip"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// provision is how every payload ends.
const provision = `/usr/bin/nohup /bin/bash -c "/bin/bash /opt/azure/containers/provision_start.sh"`

func TestProvisionEnvironment(t *testing.T) {
	tests := map[string]struct {
		script string
		want   string // the value of X that provisioning sees
	}{
		"prefixed":                {`X=one ` + provision, "one"},
		"exported before":         {"X=one\nexport X\n" + provision, "one"},
		"exported at once":        {"export X=one\n" + provision, "one"},
		"declared for export":     {"declare -x X=one\n" + provision, "one"},
		"all exported":            {"set -a\nX=one\nset +a\n" + provision, "one"},
		"the last value counts":   {"export X=one\nX=two\n" + provision, "two"},
		"the prefix counts more":  {"export X=one\nX=two " + provision, "two"},
		"single quotes":           {`X='a "b" $c' ` + provision, `a "b" $c`},
		"double quotes":           {`Y=1; X="a 'b' ${Y}" ` + provision, "a 'b' 1"},
		"ANSI quotes":             {`X=$'a\tb' ` + provision, "a\tb"},
		"escaped":                 {`X=a\ b\<c\\\é\"d ` + provision, `a b<c\é"d`},
		"continued lines":         {"X=one \\\n  Y=two \\\n  " + provision, "one"},
		"concatenated":            {`X=a'b'"c"$'d' ` + provision, "abcd"},
		"set inside the shell":    {`/bin/bash -c "X=one /bin/bash /opt/azure/containers/provision_start.sh"`, "one"},
		"exported inside":         {"bash -xc 'export X=one; exec bash /opt/azure/containers/provision_start.sh'", "one"},
		"provision.sh itself":     {"X=one bash /opt/azure/containers/provision.sh >> /var/log/x.log 2>&1", "one"},
		"called by path":          {"X=one /opt/azure/containers/provision_start.sh", "one"},
		"with a time limit":       {"X=one timeout 900 nohup bash /opt/azure/containers/provision_start.sh &\nwait", "one"},
		"after a wait loop":       {"for i in $(seq 1 3); do grep -q x /f && break; sleep 1; done\nX=one " + provision, "one"},
		"after a failing test":    {`[ -f /no/such ] && exit 1` + "\nX=one " + provision, "one"},
		"in a function":           {"start() { X=$1 " + provision + "; }\nstart one", "one"},
		"output is thrown away":   {`O=/var/log/o; echo $(date),$(hostname) > ${O}; X=one ` + provision, "one"},
		"then a failure":          {"X=one " + provision + "\nexit 7", "one"},
		"a missing value":         {"X= " + provision, ""},
		"all options exported":    {"set -o allexport\nX='o'\\''ne'\nfor _ in $(seq 1 9); do\n  [ -s /opt/azure/containers/provision_start.sh ] && break\n  sleep 1\ndone\n" + provision, "o'ne"},
		"neither exported nor so": {"X=one\n" + provision, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			env, err := provisionEnvironment(t.Context(), []byte("#!/bin/bash\n"+test.script), "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, env["X"]); diff != "" {
				t.Errorf("X (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProvisionEnvironmentRefuses(t *testing.T) {
	tests := map[string]struct{ customData, want string }{
		"nothing":             {"", "no customData"},
		"spaces":              {" \n ", "no customData"},
		"no first line":       {"X=one " + provision, "does not start with #!"},
		"cloud-config":        {"#cloud-config\nruncmd: []\n", "does not start with #!"},
		"broken gzip":         {"\x1f\x8bnonsense", "unpacking customData"},
		"broken shell":        {"#!/bin/bash\nif true; then", "reading customData"},
		"open quote":          {"#!/bin/bash\nX='one " + provision, "reading customData"},
		"no provisioning":     {"#!/bin/bash\nexport X=one", "never started"},
		"another script":      {"#!/bin/bash\nbash /opt/azure/containers/other.sh", "status 127"},
		"exit before":         {"#!/bin/bash\nexit 3\n" + provision, "status 3"},
		"stops on error":      {"#!/bin/bash\nset -e\nfalse\n" + provision, "status 1"},
		"endless loop":        {"#!/bin/bash\nwhile true; do :; done", "more than 3000 commands"},
		"endless recursion":   {"#!/bin/bash\nf() { f; }; f", "more than 3000 commands"},
		"shells without end":  {"#!/bin/bash\nbash -c 'bash -c \"bash -c \\\"bash -c true\\\"\"'", "never started"},
		"commented out":       {"#!/bin/bash\n# " + provision, "never started"},
		"only mentioned":      {"#!/bin/bash\necho " + provision, "never started"},
		"unset under nounset": {"#!/bin/bash\nset -u\nX=$Y " + provision, "never started"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			env, err := provisionEnvironment(t.Context(), []byte(test.customData), "")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, error %v; want an error with %q", env, err, test.want)
			}
		})
	}
}

func TestGzippedPayload(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte("#!/bin/bash\nX=one " + provision)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	env, err := provisionEnvironment(t.Context(), packed.Bytes(), "")
	if err != nil || env["X"] != "one" {
		t.Errorf("X = %q, error %v", env["X"], err)
	}
}

func TestGzipBombIsRefused(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(make([]byte, 2*maxScript)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := provisionEnvironment(t.Context(), packed.Bytes(), ""); err == nil {
		t.Error("two megabytes of script were accepted")
	}
}

// The interpreter runs inside the emulator's process, so a script must neither
// see nor change anything of it.
func TestScriptsAreShutIn(t *testing.T) {
	t.Setenv("EMULATOR_SECRET", "secret")
	dir := t.TempDir()
	script := "#!/bin/bash\necho x > " + dir + "/leak\nexport GOT=$(cat " + dir + "/leak)$(< /etc/hostname)$EMULATOR_SECRET\n" +
		"ls=" + dir + "/*; export LS=$(echo $ls)\n" + provision
	env, err := provisionEnvironment(t.Context(), []byte(script), "")
	if err != nil {
		t.Fatal(err)
	}
	if env["GOT"] != "" || env["EMULATOR_SECRET"] != "" {
		t.Errorf("the script read %q", env["GOT"])
	}
	if env["LS"] != dir+"/*" {
		t.Errorf("the script saw files: %q", env["LS"])
	}
}

func FuzzReadPayload(f *testing.F) {
	f.Add([]byte("#!/bin/bash\nX=one " + provision))
	f.Add([]byte("#!/bin/bash\nexport API_SERVER_NAME=a KUBE_CA_CRT=eA== KUBELET_FLAGS='--max-pods=3'\n" + provision))
	f.Add([]byte{0x1f, 0x8b, 0x08})
	f.Fuzz(func(t *testing.T, customData []byte) {
		if len(customData) > 4096 {
			t.Skip("longer scripts find nothing new")
		}
		p, err := ReadPayload(context.Background(), customData)
		if err == nil && (p.Server == "" || len(p.CA) == 0 || p.Token == "") {
			t.Errorf("accepted without server, CA or token: %q", customData)
		}
	})
}
