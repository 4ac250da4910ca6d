package v1

import (
	"path"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Folders of the machines are reachable only through names: an operator names them, a project is granted some, and whatever
// is in one is called NAME/path. Code uses them; what else will lie on machines uses the same names and rules.

// ReasonFolderNotAllowed is the reason of a path that lies in no folder that the project was granted.
const ReasonFolderNotAllowed = "FolderNotAllowed"

// NamedFolder is a folder of the machine that an operator named.
type NamedFolder struct {
	Name     string `json:"name"`
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	// Real is where Path led, without links, when the server started. What leads elsewhere by now is not the operator's word any more: another folder
	// may lie around it, and be a project's.
	Real string `json:"real,omitempty"`
}

const maxFolders = 64

// ParseNamedFolder reads NAME=PATH or NAME=PATH:ro.
func ParseNamedFolder(text string) (NamedFolder, error) {
	name, at, ok := strings.Cut(text, "=")
	at, readOnly := strings.CutSuffix(at, ":ro")
	f := NamedFolder{Name: name, Path: at, ReadOnly: readOnly}
	switch {
	case !ok || !IsName(name):
		return f, fault.New(fault.Invalid, "BadFolder", fault.T("%q is not NAME=PATH or NAME=PATH:ro; a name has lower-case letters, digits and dashes.",
			"%q 不是 NAME=PATH 或 NAME=PATH:ro 的形式；名称只能包含小写字母、数字和短横线。", text))
	case !path.IsAbs(at) || path.Clean(at) != at || strings.ContainsRune(at, 0):
		return f, fault.New(fault.Invalid, "BadFolder", fault.T("The path of folder %s must be absolute, without . and .. parts or a slash at its end; %q is not.",
			"目录 %s 的路径必须是绝对路径，不含 . 与 ..，且不以斜杠结尾；%q 不符合。", name, at))
	}
	return f, nil
}

// String is what ParseNamedFolder reads.
func (f NamedFolder) String() string {
	if f.ReadOnly {
		return f.Name + "=" + f.Path + ":ro"
	}
	return f.Name + "=" + f.Path
}

// ResolveFolder finds what a task means by a folder among those that its project was granted: NAME or NAME/path, or an absolute path below one.
// rest is "" for the folder itself. nil: it is none of them.
func ResolveFolder(folder string, granted []NamedFolder) (in *NamedFolder, rest string) {
	if !path.IsAbs(folder) {
		name, rest, _ := strings.Cut(folder, "/")
		i := slices.IndexFunc(granted, func(f NamedFolder) bool { return f.Name == name })
		if i < 0 || rest != "" && !localPath(rest) {
			return nil, ""
		}
		return &granted[i], rest
	}
	for i := range granted { // of two that it lies in, the one that is closer
		f := &granted[i]
		below, ok := strings.CutPrefix(folder, f.Path+"/")
		if folder == f.Path {
			below, ok = "", true
		}
		if ok && (in == nil || len(f.Path) > len(in.Path)) && (below == "" || localPath(below)) {
			in, rest = f, below
		}
	}
	return in, rest
}

// FolderOf is how a task calls a folder: NAME/path.
func FolderOf(in *NamedFolder, rest string) string { return path.Join(in.Name, rest) }

// localPath says that a path is relative, clean and leads nowhere else.
func localPath(p string) bool {
	return p != "" && path.Clean(p) == p && !path.IsAbs(p) && p != "." && p != ".." && !strings.HasPrefix(p, "../")
}

// folders checks the names that a project was granted.
func (f *faults) folders(at string, names []string) {
	if len(names) > maxFolders {
		f.add(at, "There are %d folders; at most %d are allowed.", "目录有 %d 个，最多允许 %d 个。", len(names), maxFolders)
		return
	}
	f.names(at, names)
}

// folder checks how a task calls a folder: NAME/path, or an absolute path, which becomes that.
func (f *faults) folder(at, p string) {
	name, rest, _ := strings.Cut(p, "/")
	named := IsName(name) && (rest == "" && !strings.HasSuffix(p, "/") || localPath(rest))
	absolute := path.IsAbs(p) && path.Clean(p) == p
	if len(p) > maxPath || strings.ContainsRune(p, 0) || !named && !absolute {
		f.add(at, "%s must be NAME/path in a folder that the project was granted, or an absolute path below one, without \"..\", \"//\" or a slash at its end.",
			"%s 应为已授予项目的目录中的 NAME/path，或其下的绝对路径，不能包含 \"..\"、\"//\" 或以斜杠结尾。", quote(p))
	}
}

// Granted are those of the machine's folders that a project was granted.
func Granted(all []NamedFolder, names []string) (out []NamedFolder) {
	for _, f := range all {
		if slices.Contains(names, f.Name) {
			out = append(out, f)
		}
	}
	return out
}

// FolderNotAllowed refuses a folder; at is its field, granted are the folders that the project may use.
func FolderNotAllowed(at, folder, project string, granted []NamedFolder) *fault.Error {
	e := fault.New(fault.Forbidden, ReasonFolderNotAllowed, fault.T(
		"The folder %q lies in no folder of the machine that project %s may use.", "目录 %q 不在项目 %s 可用的任何主机目录中。", folder, project))
	if at != "" {
		e = e.WithFields(fault.Field{Path: at, Message: fault.T("it must be NAME/path below a folder that an operator named and the project was granted", "必须是运维人员命名且已授予该项目的目录之下的 NAME/path")})
	}
	var names []string
	for _, f := range granted {
		names = append(names, f.Name)
	}
	if len(names) == 0 {
		return e.WithHint(fault.T("The project was granted none: an operator names one (fermi up --folder NAME=PATH) and grants it (project spec.folders); or submit the code as an archive.",
			"该项目尚未获授任何目录：请运维人员命名目录（fermi up --folder NAME=PATH）并授予项目（spec.folders），或以归档方式提交代码。"))
	}
	list := strings.Join(names, ", ")
	return e.WithHint(fault.T("Use NAME/path with one of: %s; or submit the code as an archive.", "请使用 NAME/path，NAME 可为：%s；或以归档方式提交代码。", list))
}
