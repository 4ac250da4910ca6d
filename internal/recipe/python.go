package recipe

import (
	"path"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

var (
	pythonName = pattern.New(`^python(3(\.[0-9]+)?)?$`)
	// pythonFlag is an option without a value under which a module of PYTHONPATH can be run.
	pythonFlag = pattern.New(`^-([uOBbdqsv]+|[WX].+)$`)
)

// bySDK runs a script with what the task says about torch, and nothing else.
var bySDK = []string{"-m", "fermi.run", "--as-told"}

// Python says whether a command is a Python program.
func Python(command []string) bool {
	return len(command) > 0 && pythonName.MatchString(path.Base(command[0]))
}

// says is what the task asks of a framework that only the SDK can do for it.
func (w *plan) says() bool {
	c := w.in.Spec.GradCompression
	return w.fw.sdk && (c != "" && c != api.CompressNone || w.st.CollectiveTimeout != 0)
}

// told has the SDK start a script where the task says something that the script need not know.
func (w *plan) told(own []string) []string {
	at := scriptAt(own)
	if !w.says() || at <= 0 {
		return own
	}
	return slices.Insert(slices.Clone(own), at, bySDK...)
}

// checkTold warns of commands that what the task says does not reach.
func (w *work) checkTold() {
	for i := range w.in.Spec.Roles {
		r := &w.in.Spec.Roles[i]
		if own := slices.Concat(r.Command, r.Args); w.says() && scriptAt(own) < 0 {
			w.warn("The command of the role %s is not python with a script or a module: gradCompression and collectiveTimeout reach it only where it runs python -m fermi.run, or the script calls fermi.init().",
				"角色 %s 的命令不是 python 加脚本或模块：仅当它运行 python -m fermi.run，或脚本调用 fermi.init() 时，gradCompression 与 collectiveTimeout 才会生效。", r.Name)
		}
	}
}

// scriptAt is where in a command the script, or -m and its module, stands; 0: the SDK runs it already, -1: there is none
// that it could run.
func scriptAt(command []string) int {
	if !Python(command) {
		return -1
	}
	for i := 1; i < len(command); i++ {
		switch word := command[i]; {
		case word == "-m" && i+1 < len(command):
			if command[i+1] == bySDK[1] {
				return 0
			}
			if strings.HasPrefix(command[i+1], "torch.distributed.") { // it starts other interpreters
				return -1
			}
			return i
		case word == "-W" || word == "-X":
			i++
		case pythonFlag.MatchString(word):
		case strings.HasSuffix(word, ".py") && word[0] != '-':
			return i
		default:
			return -1
		}
	}
	return -1
}
