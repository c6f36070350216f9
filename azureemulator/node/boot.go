// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxScript bounds an unpacked payload. Azure takes 64 KiB of customData;
	// gzip may turn that into much more.
	maxScript = 1 << 20
	// maxCommands bounds what a script may run, so that an endless loop ends.
	maxCommands = 3000
	// maxShellDepth bounds shells started by shells.
	maxShellDepth = 8
	// bootDeadline bounds the interpreter. Real payloads take milliseconds.
	bootDeadline = 10 * time.Second
)

// provisioners are the scripts on an AKS image that turn the environment they
// are started with into a running kubelet.
const (
	provisionStart = "/opt/azure/containers/provision_start.sh"
	provisionMain  = "/opt/azure/containers/provision.sh"
)

// errNeverProvisioned says that the script ran and did nothing a node could
// come from.
var errNeverProvisioned = errors.New("customData never started " + provisionStart)

// provisionEnvironment runs customData as cloud-init would and returns the
// environment the image's provisioning script was started with. Variables that
// were assigned but neither exported nor put before the command do not reach it,
// exactly as on a real VM.
func provisionEnvironment(ctx context.Context, customData []byte, version string) (map[string]string, error) {
	scripts, err := unpack(customData)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, bootDeadline)
	defer cancel()
	m := &bootedVM{version: version, files: map[string]*bytes.Buffer{}}
	for _, script := range scripts {
		file, err := parseScript(script)
		if err != nil {
			return nil, err
		}
		env, err := m.boot(ctx, file)
		if env != nil || err != nil {
			return env, err
		}
	}
	return nil, errNeverProvisioned
}

// boot runs one script to its end. Both results are nil when it started nothing.
func (m *bootedVM) boot(ctx context.Context, file *syntax.File) (map[string]string, error) {
	err := m.runSafely(ctx, file, expand.ListEnviron("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"))
	if m.controllerStarted() {
		return m.controllerEnvironment()
	}
	if env := m.environment(); env != nil {
		// What the script does after provisioning cannot take the node back.
		return env, nil
	}
	if status := interp.ExitStatus(0); errors.As(err, &status) {
		return nil, fmt.Errorf("%w: the script ended with status %d", errNeverProvisioned, status)
	}
	if err != nil {
		return nil, fmt.Errorf("running customData: %w", err)
	}
	return nil, nil
}

// unpack undoes what cloud-init would undo, and refuses what holds no shell script.
func unpack(customData []byte) ([][]byte, error) {
	data := customData
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpacking customData: %w", err)
		}
		if data, err = io.ReadAll(io.LimitReader(r, maxScript+1)); err != nil {
			return nil, fmt.Errorf("unpacking customData: %w", err)
		}
	}
	switch {
	case len(data) > maxScript:
		return nil, fmt.Errorf("customData is larger than %d bytes", maxScript)
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("the VM has no customData")
	case isMultipart(data):
		return bootHooks(data)
	case !bytes.HasPrefix(data, []byte("#!")):
		// cloud-init decides by the first line.
		return nil, fmt.Errorf("customData does not start with #! but with %q: cloud-init would not run it", firstLine(data))
	}
	return [][]byte{data}, nil
}

func firstLine(data []byte) string {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	return string(line[:min(len(line), 16)])
}

func parseScript(script []byte) (*syntax.File, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(script), "customData")
	if err != nil {
		return nil, fmt.Errorf("reading customData: %w", err)
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if a, ok := n.(*syntax.Assign); ok && a.Value != nil {
			a.Value.Parts = quoteEscapes(a.Value.Parts)
		}
		return true
	})
	return file, nil
}

// quoteEscapes writes a\ b as a' 'b. The interpreter keeps the backslash of an
// unquoted escape in assigned values, which no shell does.
func quoteEscapes(parts []syntax.WordPart) []syntax.WordPart {
	var out []syntax.WordPart
	for _, part := range parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			out = append(out, part)
			continue
		}
		before, after, found := strings.Cut(lit.Value, `\`)
		for found && after != "" {
			_, size := utf8.DecodeRuneInString(after)
			out = append(out, &syntax.Lit{Value: before}, &syntax.SglQuoted{Value: after[:size]})
			before, after, found = strings.Cut(after[size:], `\`)
		}
		if found {
			before += `\`
		}
		out = append(out, &syntax.Lit{Value: before})
	}
	return out
}

// bootedVM is the virtual machine as far as a bootstrap script can see it: a few
// files, a few programs, and everything else there but without effect.
type bootedVM struct {
	version string // of the image, such as 202607.06.0; may be empty

	mu          sync.Mutex // guards what follows: a script may run things in the background
	provisioned map[string]string
	files       map[string]*bytes.Buffer // what scripts wrote, by path
	controller  bool                     // the node controller was started
	commands    int
	depth       int
}

// runSafely turns a panic of the interpreter, which is not ours and meets any
// script a client sends, into a script that failed.
func (m *bootedVM) runSafely(ctx context.Context, file *syntax.File, env expand.Environ) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the shell failed: %v", p)
		}
	}()
	return m.run(ctx, file, env)
}

func (m *bootedVM) run(ctx context.Context, file *syntax.File, env expand.Environ, params ...string) error {
	if m.deeper(1) > maxShellDepth {
		return fmt.Errorf("more than %d shells inside each other", maxShellDepth)
	}
	defer m.deeper(-1)
	r, err := interp.New(
		interp.Env(env),
		interp.Dir("/"),
		interp.Params(append([]string{"--"}, params...)...),
		// Output is dropped: payloads are full of secrets.
		interp.StdIO(nil, io.Discard, io.Discard),
		interp.CallHandler(m.count),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return m.exec }),
		interp.OpenHandler(m.open),
		interp.StatHandler(m.stat),
		interp.AccessHandler(func(ctx context.Context, name string, _ interp.AccessMode) error {
			_, err := m.stat(ctx, name, true)
			return err
		}),
		interp.ReadDirHandler2(func(context.Context, string) ([]fs.DirEntry, error) { return nil, nil }),
	)
	if err != nil {
		return fmt.Errorf("starting a shell: %w", err)
	}
	err = r.Run(ctx, file)
	if wait, broken := parseScript([]byte("wait")); broken == nil {
		// What a script leaves in the background lives on without it.
		_ = r.Run(ctx, wait)
	}
	return err
}

func (m *bootedVM) deeper(by int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.depth += by
	return m.depth
}

func (m *bootedVM) environment() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.provisioned
}

func (m *bootedVM) count(_ context.Context, args []string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.commands++; m.commands > maxCommands {
		return nil, fmt.Errorf("the script ran more than %d commands", maxCommands)
	}
	return args, nil
}

// exec is every program of the VM. Those that start other programs do; the
// provisioning script takes its environment; all others succeed in silence, as a
// well-prepared image would let them.
func (m *bootedVM) exec(ctx context.Context, args []string) error {
	for len(args) > 0 {
		switch path.Base(args[0]) {
		case "nohup", "setsid", "sudo":
			args = args[1:]
		case "timeout":
			args = args[min(2, len(args)):]
		case "bash", "sh":
			return m.shell(ctx, args[1:])
		case "base64":
			return base64Decode(ctx, args[1:])
		case "systemctl":
			m.systemctl(args[1:])
			return nil
		default:
			if isProvisioner(args[0]) {
				m.provision(ctx)
			}
			return nil
		}
	}
	return interp.ExitStatus(125)
}

// shell is /bin/bash as a program: a command after -c, or a script file.
func (m *bootedVM) shell(ctx context.Context, args []string) error {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		option := args[0]
		args = args[1:]
		if strings.HasPrefix(option, "--") || !strings.Contains(option, "c") {
			continue
		}
		if len(args) == 0 {
			return interp.ExitStatus(2)
		}
		file, err := parseScript([]byte(args[0]))
		if err != nil {
			return err
		}
		// The first word after the command is its $0.
		return m.run(ctx, file, exported(ctx), args[min(2, len(args)):]...)
	}
	if len(args) > 0 && path.Clean(args[0]) == controllerLauncher && m.hasLauncher() {
		m.startController()
		return nil
	}
	if len(args) == 0 || !isProvisioner(args[0]) {
		return interp.ExitStatus(127)
	}
	m.provision(ctx)
	return nil
}

func isProvisioner(file string) bool {
	file = path.Clean(file)
	return file == provisionStart || file == provisionMain
}

func (m *bootedVM) provision(ctx context.Context) {
	env := map[string]string{}
	exported(ctx).Each(func(name string, v expand.Variable) bool {
		env[name] = v.String()
		return true
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.provisioned == nil {
		m.provisioned = env
	}
}

// exported is the environment a program started now would get.
func exported(ctx context.Context) expand.Environ {
	vars := map[string]string{}
	interp.HandlerCtx(ctx).Env.Each(func(name string, v expand.Variable) bool {
		delete(vars, name)
		if v.Exported && v.Kind == expand.String {
			vars[name] = v.String()
		}
		return true
	})
	pairs := make([]string, 0, len(vars))
	for name, value := range vars {
		pairs = append(pairs, name+"="+value)
	}
	return expand.ListEnviron(pairs...)
}

// open gives scripts a disk that takes every write. Of those it remembers the node
// controller's document.
func (m *bootedVM) open(_ context.Context, name string, flag int, _ os.FileMode) (io.ReadWriteCloser, error) {
	if flag&(os.O_WRONLY|os.O_RDWR) == 0 && name != os.DevNull {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if name = path.Clean(name); name != controllerConfig {
		return void{}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[name] == nil || flag&os.O_TRUNC != 0 {
		m.files[name] = &bytes.Buffer{}
	}
	return &rememberedFile{vm: m, file: m.files[name]}, nil
}

// rememberedFile is an open file that is remembered.
type rememberedFile struct {
	void
	vm   *bootedVM
	file *bytes.Buffer
}

func (d *rememberedFile) Write(p []byte) (int, error) {
	d.vm.mu.Lock()
	defer d.vm.mu.Unlock()
	if d.file.Len()+len(p) > maxScript {
		return 0, fmt.Errorf("the disk is full at %d bytes", maxScript)
	}
	return d.file.Write(p)
}

func (m *bootedVM) stat(_ context.Context, name string, _ bool) (fs.FileInfo, error) {
	switch name = path.Clean(name); {
	case name == controllerLauncher && m.hasLauncher(), isProvisioner(name), name == "/bin/bash", name == "/usr/bin/bash", name == os.DevNull:
		return fileInfo{name: path.Base(name), mode: 0o755}, nil
	case name == "/" || strings.HasPrefix(provisionStart, name+"/"), strings.HasPrefix("/var/log/azure/", name+"/"):
		return fileInfo{name: path.Base(name), mode: fs.ModeDir | 0o755}, nil
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

// void is an open file that swallows what is written and has nothing to read.
type void struct{}

func (void) Read([]byte) (int, error)    { return 0, io.EOF }
func (void) Write(p []byte) (int, error) { return len(p), nil }
func (void) Close() error                { return nil }

// fileInfo describes one of the few files scripts look for.
type fileInfo struct {
	name string
	mode fs.FileMode
}

func (f fileInfo) Name() string      { return f.name }
func (fileInfo) Size() int64         { return 1 }
func (f fileInfo) Mode() fs.FileMode { return f.mode }
func (fileInfo) ModTime() time.Time  { return time.Time{} }
func (f fileInfo) IsDir() bool       { return f.mode.IsDir() }
func (fileInfo) Sys() any            { return nil }
