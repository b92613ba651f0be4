package build

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/mod/modfile"

	"github.com/mcptask/mcptask/hack/cluster/internal/cache"
	"github.com/mcptask/mcptask/hack/cluster/internal/host"
	"github.com/mcptask/mcptask/hack/cluster/internal/progress"
)

// A cold build of Kubernetes leaves about 5 GiB in Go's build cache and 2 GiB
// of modules; a warm one only the programs.
const (
	coldSpace    = 8 * host.GiB
	warmSpace    = 1 * host.GiB
	coldPackages = 500 // more packages than this to compile is a cold build
)

// compiler runs the Go and C compilers in a folder of sources.
type compiler struct {
	source    string
	modules   *modfile.File
	toolchain string // the Go that go.mod names
	report    *progress.Reporter
	title     string // of the step, for the moving line
	started   time.Time
}

func newCompiler(source string, report *progress.Reporter) (*compiler, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fmt.Errorf("the go command is not in PATH: building a cluster needs it")
	}
	name := filepath.Join(source, "go.mod")
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	modules, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return nil, err
	}
	return &compiler{source: source, modules: modules, toolchain: "go" + modules.Go.Version, report: report}, nil
}

// compile makes the programs of a recipe in a folder.
func (c *compiler) compile(ctx context.Context, r recipe, folder string) error {
	c.started = time.Now()
	defer c.report.Done()
	if r.CSource != "" {
		return c.compileC(ctx, r, folder)
	}
	ldflags, err := c.expand(r.Ldflags, r.Module)
	if err != nil {
		return err
	}
	flags := append([]string{"-tags", r.Tags, "-ldflags", ldflags}, r.Packages...)
	stale, err := c.stale(ctx, r, flags)
	if err != nil {
		return err
	}
	if err := c.checkSpace(ctx, len(stale)); err != nil {
		return err
	}
	compiled := 0
	return c.goCommand(ctx, r, io.Discard, func(line string) bool {
		if !stale[line] {
			return false
		}
		compiled++
		c.moving("package %d of %d", compiled, len(stale))
		return true
	}, append([]string{"build", "-v", "-o", folder + "/"}, flags...)...)
}

// stale lists the packages that Go will have to compile. It downloads the
// modules that are missing.
func (c *compiler) stale(ctx context.Context, r recipe, flags []string) (map[string]bool, error) {
	var out bytes.Buffer
	downloads := 0
	err := c.goCommand(ctx, r, &out, func(line string) bool {
		module, ok := strings.CutPrefix(line, "go: downloading ")
		if ok {
			downloads++
			c.moving("downloading module %d, %s", downloads, module)
		}
		return ok
	}, append([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, flags...)...)
	if err != nil {
		return nil, err
	}
	stale := map[string]bool{}
	for _, name := range strings.Fields(out.String()) {
		stale[name] = true
	}
	return stale, nil
}

// goCommand runs go. Each line of its standard error goes to progress; the
// lines that progress does not know are kept for the error.
func (c *compiler) goCommand(ctx context.Context, r recipe, stdout io.Writer, known func(string) bool, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout = c.source, stdout
	cgo := "0"
	if r.CGO {
		cgo = "1"
	}
	// The user's flags and Go are replaced, so that everyone's programs are the same: tests run under the Go of what they
	// test, which is another. GOGC=400 saves a sixth of the work.
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GOGC=400", "GOFLAGS=-trimpath -buildvcs=false",
		"GOTOOLCHAIN="+c.toolchain, "GOWORK=off", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var rest []string
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !known(lines.Text()) {
			rest = append(rest, lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("go %s: %w\n%s", args[0], err, strings.Join(rest[max(0, len(rest)-20):], "\n"))
	}
	return nil
}

// compileC makes the one C program that there is.
func (c *compiler) compileC(ctx context.Context, r recipe, folder string) error {
	var out bytes.Buffer
	if err := c.goCommand(ctx, r, &out, func(string) bool { return false }, "mod", "download", "-json", r.Module); err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out.Bytes(), &module); err != nil {
		return fmt.Errorf("go mod download: %w", err)
	}
	source := filepath.Join(module.Dir, r.CSource)
	program := strings.TrimSuffix(filepath.Base(source), ".c")
	tag := PauseImage[strings.LastIndex(PauseImage, ":")+1:]
	message, err := exec.CommandContext(ctx, "gcc", "-Os", "-static", "-DVERSION=v"+tag, "-o", filepath.Join(folder, program), source).CombinedOutput()
	if err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, bytes.TrimSpace(message))
	}
	return nil
}

// expand puts a module's version into linker flags.
func (c *compiler) expand(flags, module string) (string, error) {
	if module == "" {
		return flags, nil
	}
	for _, required := range c.modules.Require {
		if required.Mod.Path != module {
			continue
		}
		number := strings.TrimPrefix(required.Mod.Version, "v")
		parts := strings.SplitN(number, ".", 3)
		return strings.NewReplacer("{VERSION}", required.Mod.Version, "{NUMBER}", number,
			"{MAJOR}", parts[0], "{MINOR}", parts[1]).Replace(flags), nil
	}
	return "", fmt.Errorf("go.mod requires no %s", module)
}

// checkSpace makes sure that the disks take what is going to be compiled.
func (c *compiler) checkSpace(ctx context.Context, packages int) error {
	if err := host.CheckSpace(filepath.Dir(c.source), warmSpace); err != nil {
		return fmt.Errorf("%w; set %s to a folder on a larger disk", err, cache.Variable)
	}
	if packages < coldPackages {
		return nil
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOCACHE: %w", err)
	}
	if err := host.CheckSpace(strings.TrimSpace(string(out)), coldSpace); err != nil {
		return fmt.Errorf("%w, as most of it must be compiled; set GOCACHE to a folder on a larger disk", err)
	}
	return nil
}

func (c *compiler) moving(format string, args ...any) {
	c.report.Movingf("%s: %s, %s", c.title, fmt.Sprintf(format, args...), time.Since(c.started).Round(time.Second))
}
