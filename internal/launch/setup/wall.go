package setup

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/editor"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/inside/program"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/rootfs"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
)

// dirPrograms is beside the folder of the replicas.
const dirPrograms = "programs"

// Enclosure is what stands around the processes of a replica: its wall, its network and its image.
type Enclosure struct {
	Home  *Home
	Group *cgroup.Group // nil: none
	// Place is its network, once Settle is through.
	Place   Place
	image   *rootfs.Image // nil: the node's own system
	over    *layers       // what is written over it
	data    dataMounts    // versions of datasets and models
	helpers helpers       // the steward's processes
	program func() string // process 1's
	log     *slog.Logger
}

// Enclose makes what stands around the processes of a replica, and gives its home a steward.
func Enclose(h *Home, group *cgroup.Group, log *slog.Logger) *Enclosure {
	e := &Enclosure{Home: h, Group: group, log: log, over: layersOf(h.Dir, h.Replica, h.Tenant)}
	e.program = sync.OnceValue(func() string { return program.In(filepath.Join(h.Dir, "..", "..", dirPrograms)) })
	if h.Steward = steward.New(nil); h.Tenant.UID != 0 {
		h.Steward = steward.New(e.startHelper)
	}
	return e
}

// GetReady begins to make the processes that will build walls, for the steward and the ranks. Dismiss ends those that nobody took.
func (e *Enclosure) GetReady() {
	if e.Home.Tenant.UID != 0 {
		e.helpers.ready = inside.GetReady(2, string(e.Home.Replica.Name), e.program())
	}
}

// Helpers are the steward's processes, which belong to no generation.
func (e *Enclosure) Helpers() []record.Process { return e.helpers.all() }

// GroupPath is the first cgroup of the replica; "": there is none.
func (e *Enclosure) GroupPath() string {
	if e.Group == nil || len(e.Group.Paths) == 0 {
		return ""
	}
	return e.Group.Paths[0]
}

// Starter is how a fresh process is started here.
func (e *Enclosure) Starter() process.Starter {
	if e.Home.Tenant.UID != 0 {
		return e.walled
	}
	return process.Counted(process.Finder(e.Home.Find).Plain, e.Group, e.log)
}

// wall is what stands around every process that is not the launcher's own: the ranks, their standby, the steward's.
// It is the one place that says so.
func (e *Enclosure) wall() inside.Wall {
	w := inside.Wall{
		Mark: string(e.Home.Replica.Name), UID: e.Home.Tenant.UID, GID: e.Home.Tenant.UID, Hide: e.Home.Tenant.Hide,
		Tmp: filepath.Join(e.Home.Dir, record.DirTmp), VarTmp: filepath.Join(e.Home.Dir, record.DirVarTmp),
		SharedMemory: int64(e.Home.Replica.Resources.SharedMemory), Net: e.Place.Space.Descriptor(), Shown: inside.Shown{Files: e.Place.files(e.Home.Dir)},
	}
	for _, name := range []string{record.DirOutput, record.DirCode, record.DirHome} {
		if record.Exists(e.Home.Dir, name) { // not in the life after one that never got so far
			w.Binds = append(w.Binds, filepath.Join(e.Home.Dir, name))
		}
	}
	if home := HomeOf(e.Home.Dir, e.Home.Replica); home != "" && record.Exists(filepath.Dir(home), filepath.Base(home)) {
		w.Binds = append(w.Binds, home)
	}
	showProgram(&w, e.Home.Dir, e.image != nil)
	if e.Home.Memory != "" {
		w.Binds = append(w.Binds, e.Home.Memory)
	}
	if code := e.Home.codeDir(); !slices.Contains(w.Binds, code) {
		w.Binds = append(w.Binds, code)
	}
	if c := e.Home.Replica.Code; c != nil && c.Folder != "" {
		if in, _ := api.ResolveFolder(c.Folder, e.Home.Folders); in != nil { // otherwise nothing starts, see codeBase
			w.Folders = []inside.Folder{{Path: in.Path, Real: in.Real, ReadOnly: in.ReadOnly}}
		}
	}
	if tools := editor.Folder(); tools != "" && e.Home.Replica.Home != "" {
		w.Folders = append(w.Folders, inside.Folder{Path: tools, Real: tools, ReadOnly: true})
	}
	if e.image != nil && e.Home.Replica.Images != engine.ImagePull && e.Home.Replica.Images != engine.ImageKeep {
		w.Root, w.Stage, w.Placed = e.image.Root, filepath.Join(e.Home.Dir, dirStage), driver(e.Home.Replica.Devices)
	}
	return w
}

// walled starts the command as the tenant, behind its wall.
func (e *Enclosure) walled(p *process.Set, r engine.Replica, dir string, env []string, each [][]string, stdin uintptr, out []inside.Pipes) error {
	wall, file := e.wall(), ""
	e.over.root(&wall)
	if e.Home.Replica.Images == engine.ImageBuild {
		wall.IDs = idsOf(e.Home.Tenant, 0)
	}
	volumes, err := volumesOf(r, e.Home.Folders)
	if err != nil {
		return err
	}
	if mine := append(volumes, e.data.folders()...); len(mine) > 0 {
		wall.Folders, wall.Stage = append(wall.Folders, mine...), filepath.Join(e.Home.Dir, dirStage)
	}
	if r.Command[0] == "fermi" || !e.over.rooted() { // what was installed over the image is seen behind this wall alone
		if file, err = e.Home.Find(r.Command[0], dir, process.Lookup(env, "PATH")); err != nil {
			return err
		}
	}
	seen := []string{fileHyper}
	if record.Exists(e.Home.Dir, dirAccess) {
		seen = append(seen, dirAccess)
	}
	if len(r.SecretFiles)+len(r.Credentials) > 0 {
		seen = append(seen, dirSecrets)
	}
	if r.Recipe != nil {
		seen = append(seen, dirRecipe)
	}
	if wantsSDK(r) {
		seen = append(seen, dirSDK)
	}
	for _, name := range seen {
		wall.Binds = append(wall.Binds, filepath.Join(e.Home.Dir, name))
	}
	door, err := e.Group.Door()
	if err != nil {
		return err
	}
	if door != nil {
		defer door.Close()
		wall.Door, wall.Clone = door, e.Group.Version == 2
	}
	tree, err := inside.Start(e.helpers.ready, wall, inside.Command{Args: r.Command, Env: env, Each: each, Dir: dir, File: file, Orphans: p.Orphans, Program: e.program()}, stdin, out)
	if err != nil {
		return wallFault(r, err)
	}
	p.Tree, p.PIDs = tree, []int{tree.PID}
	return nil
}

// wallFault says what a failed start behind a wall means.
func wallFault(r engine.Replica, err error) error {
	var no *inside.Refused
	if !errors.As(err, &no) {
		return err
	}
	switch no.Step {
	case inside.StepExec:
		return process.SpawnFault(r.Command[0], no.Errno)
	case inside.StepLayer:
		return layerFault(r, no)
	case inside.StepFolder:
		if slices.ContainsFunc(r.Mounts.All(), func(m mount.AssetRef) bool { return m.Path == no.File }) {
			return process.CantStart(process.CodeNotExecutable, err, "Nothing can be mounted at %s on the node %s: %s; use another path.", "节点 %[2]s 上无法挂载到 %[1]s：%[3]s；请使用其他路径。", no.File, r.Node, no.Text)
		}
		return noFolder(no.File, r.Node, no)
	case inside.StepBuild:
		if r.Image != "" {
			return process.CantStart(process.CodeNotExecutable, err,
				"The node %s could not put together what the image %s needs (%s: %s); its kernel must have overlayfs, user namespaces and idmapped mounts, and root the right to mount.",
				"节点 %s 无法为镜像 %s 搭建运行环境（%s：%s）；其内核需支持 overlayfs、用户命名空间与 idmapped 挂载，且 root 需有挂载权限。", r.Node, r.Image, no.File, no.Errno)
		}
	}
	return err
}

// Everybody is the processes of the replica, the launcher too.
func (e *Enclosure) Everybody() (pids []int) {
	if e.Group != nil {
		pids, _ = e.Group.Pids()
		return pids
	}
	stats := process.ReadAll()
	for pid := range stats {
		if process.Descends(pid, os.Getpid(), stats) {
			pids = append(pids, pid)
		}
	}
	return pids
}
