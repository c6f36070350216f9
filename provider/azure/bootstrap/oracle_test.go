// SPDX-License-Identifier: Apache-2.0

package bootstrap_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/karve-dev/karve/azureemulator/node"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
)

// agentBaker is the folder that may contain Azure/AgentBaker, whose parser and scripts are in AKS
// images.
const agentBaker = "../../../../shared/oracles/agentbaker"

// images returns that folder, or skips the test.
func images(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(agentBaker)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: nothing is held against what images really run", dir)
	}
	return dir
}

// parserMain prints the environment variables that the node controller of an image derives from
// the document.
const parserMain = `package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/Azure/agentbaker/aks-node-controller/parser"
	"github.com/Azure/agentbaker/aks-node-controller/pkg/gpu"
	"github.com/Azure/agentbaker/aks-node-controller/pkg/nodeconfigutils"
)

func main() {
	data, err := io.ReadAll(os.Stdin)
	check(err)
	config, err := nodeconfigutils.UnmarshalConfigurationV1(data)
	check(err)
	check(nodeconfigutils.Validate(config))
	command, err := parser.BuildCSECmd(context.Background(), config, &gpu.GPUConfiguration{})
	check(err)
	for _, variable := range command.Env {
		fmt.Printf("%s\x00", variable)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
`

// parserModule needs little of what the real one does, as only its parser is built.
const parserModule = `module github.com/Azure/agentbaker/aks-node-controller

go 1.25

require (
	github.com/Masterminds/semver/v3 v3.4.0
	google.golang.org/protobuf v1.36.12
)
`

var parser struct {
	build sync.Once
	dir   string
	err   error
}

// realParser builds the image's own parser, once. TestMain deletes its files.
func realParser(t *testing.T) string {
	t.Helper()
	source := filepath.Join(images(t), "aks-node-controller")
	parser.build.Do(func() {
		if parser.dir, parser.err = os.MkdirTemp("", "agentbaker"); parser.err == nil {
			parser.err = buildParser(source, parser.dir)
		}
	})
	if parser.err != nil {
		t.Skipf("the parser of AgentBaker cannot be built here: %v", parser.err)
	}
	return filepath.Join(parser.dir, "parse")
}

// buildParser builds the program parse in dir.
func buildParser(source, dir string) error {
	for _, part := range []string{"parser", "pkg", "helpers"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(source, part))); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(dir, "pkg", "nodeconfigutils", "testutil.go")); err != nil {
		return err
	}
	for name, text := range map[string]string{"go.mod": parserModule, "main.go": parserMain} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", "parse", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return errors.New(string(output))
	}
	return nil
}

// TestMain deletes the parser after the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if parser.dir != "" {
		_ = os.RemoveAll(parser.dir) // the system cleans up files that remain
	}
	os.Exit(code)
}

// realEnvironment returns the environment of an image's scripts: the variables that the script of
// the environment contract exports, or those that the real parser derives from the document.
func realEnvironment(t *testing.T, n bootstrap.NodeConfig, c bootstrap.Contract) map[string]string {
	t.Helper()
	data := encode(t, n, c)
	if c == bootstrap.Environment {
		env, err := node.Environment(t.Context(), data, n.ImageVersion)
		if err != nil {
			t.Fatal(err)
		}
		return env
	}
	parse := exec.Command(realParser(t))
	parse.Stdin = bytes.NewReader(documentIn(t, data))
	parse.Stderr = os.Stderr
	output, err := parse.Output()
	if err != nil {
		t.Fatalf("the image's parser refuses the document: %v", err)
	}
	env := map[string]string{}
	for variable := range strings.SplitSeq(string(output), "\x00") {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	return env
}

// documentIn returns the node controller's document in the boot hook of customData.
func documentIn(t *testing.T, customData []byte) []byte {
	t.Helper()
	_, rest, _ := strings.Cut(string(customData), "<<'EOF'\n")
	encoded, _, found := strings.Cut(rest, "EOF\n")
	document, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(encoded, "\n", ""))
	if !found || err != nil {
		t.Fatalf("there is no document in the boot hook: %v", err)
	}
	return document
}

// serverUse matches the URLs that scripts build from the API server's name.
var serverUse = regexp.MustCompile(`https://\$\{API_SERVER_NAME\}[^\s"']*`)

// Every URL that the scripts of an image build from the API server's name, as the image's parser
// passes it on, is the endpoint that AKS reports for a cluster.
//
// Rule BOOTSTRAP-4.
func TestScriptsReachTheEndpoint(t *testing.T) {
	scripts := filepath.Join(images(t), "parts", "linux", "cloud-init", "artifacts")
	const endpoint = "https://prod-1b2c3d4e.hcp.eastus.azmk8s.io:443"
	name, err := bootstrap.ServerName(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	n := testNode()
	n.Server = name
	uses := 0
	for _, file := range []string{"cse_main.sh", "cse_config.sh"} {
		text, err := os.ReadFile(filepath.Join(scripts, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range contracts {
			told := realEnvironment(t, n, c)["API_SERVER_NAME"]
			for _, use := range serverUse.FindAllString(string(text), -1) {
				got := strings.ReplaceAll(use, "${API_SERVER_NAME}", told)
				if _, err := url.Parse(got); err != nil || got != endpoint {
					t.Errorf("%s: %s asks for %s (%v), want %s", c, file, got, err, endpoint)
				}
				uses++
			}
		}
	}
	if uses == 0 {
		t.Error("no script makes a URL of API_SERVER_NAME: the test looks for the wrong thing")
	}
}

// driverInstalled is the condition under which the main script of an image installs AKS's GPU
// driver.
var driverInstalled = regexp.MustCompile(`(?s)# Install and configure GPU drivers[^\n]*\n\s*if ([^\n]+); then\n`)

// For a class whose users install the driver, the image's own condition for installing one is
// false, and containers are started without NVIDIA's runtime, which is part of the driver.
//
// Rule BOOTSTRAP-10.
func TestScriptsLeaveTheGPUToItsOwner(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(images(t), "parts", "linux", "cloud-init", "artifacts", "cse_main.sh"))
	if err != nil {
		t.Fatal(err)
	}
	question := driverInstalled.FindStringSubmatch(string(text))
	if question == nil {
		t.Fatal("cse_main.sh asks another question before it installs a driver")
	}
	for _, c := range contracts {
		for _, install := range []bool{true, false} {
			n := testNode()
			n.GPU.Install = install
			env := realEnvironment(t, n, c)
			ask := exec.Command("bash", "-c", "if "+question[1]+"; then echo installs; else echo leaves it; fi")
			ask.Env = []string{"GPU_NODE=" + env["GPU_NODE"]}
			answer, err := ask.Output()
			if got := strings.TrimSpace(string(answer)); err != nil || (got == "installs") != install {
				t.Errorf("%s, install %v: the image %s (%v)", c, install, got, err)
			}
			runtime, err := base64.StdEncoding.DecodeString(env["CONTAINERD_CONFIG_CONTENT"])
			if got := strings.Contains(string(runtime), "nvidia-container-runtime"); err != nil || got != install {
				t.Errorf("%s, install %v: NVIDIA's runtime is configured: %v (%v)\n%s", c, install, got, err, runtime)
			}
		}
	}
}
