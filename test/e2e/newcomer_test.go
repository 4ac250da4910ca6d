package e2e

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden transcripts anew")

// newcomerCode is what a newcomer has in the folder.
var newcomerCode = map[string]string{
	"train.py": "print(\"done\")\n",
	"mat.py": `import sys; sys.stderr.write("epoch 1\n")  # where its traceback goes too: two pipes have no order


def forward(x):
    raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (32x784 and 512x10)")


forward(1)
`,
	"bar.py": `import sys
for i in range(101):
    sys.stderr.write("\r%3d%%|%-10s|" % (i, "#" * (i // 10)))
    sys.stderr.flush()
sys.stderr.write("\ntrained\n")
`,
	"shadow.py":           "open(\"/etc/shadow\")\n",
	"torchless.py":        "import torch_of_another_machine\n",
	"start.sh":            "#!/bin/sh\necho hi\n",
	".venv/pyvenv.cfg":    "home = /usr/bin\n",
	".venv/bin/activate":  "\n",
	"__pycache__/old.pyc": "\n",
	"requirements.txt":    "torch\n",
	".fermiignore":        "*.log\n",
}

// newcomerCommands are what people try in their first hour, as an ordinary member of one project. LANG becomes the language,
// so that names are free twice.
var newcomerCommands = []string{
	"fermi",
	"fermi gpu",
	"fermi login",
	"fermi run python train.py",
	"fermi rm old",
	"fermi train run --nodes 2 -- python train.py",
	"fermi train run -- python missing.py",
	"fermi train run --name mat-LANG -- python mat.py",
	"fermi why mat-LANG",
	"fermi train list --phase failed --search mat-LANG -o name",
	"fermi train rerun mat-LANG --name again-LANG -- python train.py",
	"fermi train run --zone 广州-1 -- python train.py",
	"fermi train run --zone 北京-1 --name bar-LANG -- python bar.py",
	"fermi logs bar-LANG",
	"fermi train run -- python shadow.py",
	"fermi train run -- ./start.sh",
	"fermi train run -- python torchless.py",
	"fermi train run --queue small --gpus 8 -- python train.py",
	"fermi train run --priority 9000 -- python train.py",
	"fermi train run --cpu lots --gpus 200 --requirements none.txt -- python train.py",
	"fermi stop mat-LANG",
	"fermi whoami",
}

// What differs from run to run: times, ids, folders, the numbers of nodes, and what Python draws below a line.
var sameAgain = []struct {
	was *regexp.Regexp
	is  string
}{
	{regexp.MustCompile(`(?m)^\s*[~^]+\n`), ""},
	{regexp.MustCompile(`(?m)^(Pending|Initializing|Recovering|等待中|初始化|准备中|恢复中|排队).*\n`), ""}, // only a slow machine has the time to say it
	{regexp.MustCompile(`task-[0-9a-z]{20}`), "task-ID"},
	{regexp.MustCompile(`\b((?:python|start)-[a-z-]*(?:py|sh))-[0-9a-z]{5}\b`), "$1-XXXXX"},
	{regexp.MustCompile(`((?:after|历时) )[0-9.]+(?:ms|s|m)+`), "${1}TIME"},
	{regexp.MustCompile(`\b([a-z]+-[0-9])-n[0-9]+\b`), "$1-nXX"},
	{regexp.MustCompile(`(?m)^\S*python[0-9.]*: can't open`), "python: can't open"},
	{regexp.MustCompile(`\S*python[0-9.]*: can't open`), "python: can't open"},
}

// TestNewcomer holds what newcomers see, word for word, in both languages.
func TestNewcomer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs the work of several projects on one machine")
	}
	w := up(t, "--demo")
	w.must("user", "create", "ann", "--role", "member")
	w.must("queue", "create", "small", "--limit", "devices=1")
	w.must("project", "create", "lab", "--member", "ann")
	token := strings.TrimSpace(w.must("token", "create", "bot", "--user", "ann"))
	dir := t.TempDir()
	for name, text := range newcomerCode {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, lang := range []string{"en", "zh"} {
		var got strings.Builder
		for _, line := range newcomerCommands {
			line = strings.ReplaceAll(line, "LANG", lang)
			got.WriteString("$ " + line + "\n" + w.transcript(dir, lang, token, strings.Fields(line)[1:]) + "\n")
		}
		golden := filepath.Join("testdata", "newcomer."+lang+".txt")
		if *update {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(golden, []byte(got.String()), 0o644)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); d != "" {
			t.Errorf("%s differs; look at it, then -update:\n%s", golden, d)
		}
	}
}

// transcript is what a command says, both streams as a terminal would mix them, and how it ends.
func (w *world) transcript(dir, lang, token string, args []string) string {
	w.t.Helper()
	var both bytes.Buffer
	cmd := exec.CommandContext(w.t.Context(), w.Bin, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_LANG="+lang, "FERMI_TOKEN="+token, "XDG_CACHE_HOME="+w.t.TempDir(), "XDG_CONFIG_HOME="+w.t.TempDir())
	cmd.Stdout, cmd.Stderr = &both, &both // one descriptor: in the order of writing
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("fermi %v: %v", args, err)
	}
	text := strings.NewReplacer(w.Dir, "DATA", w.Addr, "SERVER").Replace(both.String())
	for _, s := range sameAgain {
		text = s.was.ReplaceAllString(text, s.is)
	}
	if exit != nil {
		text += "[exit code " + strings.TrimPrefix(exit.Error(), "exit status ") + "]\n"
	}
	return text
}
