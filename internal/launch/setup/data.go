package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/chore"
	"github.com/fermi-cluster/fermi/internal/launch/depot"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/retry"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/link"
)

// dataMounts are the versions that a replica has, once they are here.
type dataMounts struct {
	datasets, models []dataMount
}

type dataMount struct {
	mount.AssetRef
	held   *depot.Held
	folder *inside.Folder // of the machine, that it is; nil: it is held
	shown  bool           // a link to it stands at its path
}

// root is where its files lie on the node.
func (m dataMount) root() string {
	if m.folder != nil {
		return filepath.Join(m.folder.Path, m.folder.Below)
	}
	return m.held.Root
}

// show links a version to where it is asked for, on a machine where nothing is mounted and nobody else is.
func (m *dataMount) show() error {
	if err := os.MkdirAll(filepath.Dir(m.Path), 0o755); err != nil {
		return err
	}
	if was, err := os.Lstat(m.Path); err == nil && (was.Mode()&fs.ModeSymlink != 0 || was.IsDir()) {
		_ = os.Remove(m.Path) // a link of a launcher before us, or an empty folder of the image
	}
	if err := os.Symlink(m.root(), m.Path); err != nil {
		return err
	}
	m.shown = true
	return nil
}

// unshow takes the link away, unless it is another's by now.
func (m *dataMount) unshow() {
	if to, err := os.Readlink(m.Path); m.shown && err == nil && to == m.root() {
		_ = os.Remove(m.Path)
	}
}

func (d *dataMounts) all() []dataMount {
	return append(append([]dataMount{}, d.datasets...), d.models...)
}

// folders are what a wall shows of them.
func (d *dataMounts) folders() (out []inside.Folder) {
	for _, m := range d.all() {
		if m.folder != nil {
			out = append(out, *m.folder)
			continue
		}
		out = append(out, inside.Folder{Path: m.held.Root, ReadOnly: true, At: m.Path})
	}
	return out
}

// variables say where each is: $FERMI_DATASET_NAME and $FERMI_MODEL_NAME, and of the first ones without a name. Without a wall that is on the node itself.
func (d *dataMounts) variables(walled bool) (out []string) {
	for _, kind := range []struct {
		name string
		list []dataMount
	}{{"FERMI_DATASET", d.datasets}, {"FERMI_MODEL", d.models}} {
		for i, m := range kind.list {
			at := m.Path
			if !walled {
				at = m.root()
			}
			if i == 0 {
				out = append(out, kind.name+"="+at)
			}
			out = append(out, kind.name+"_"+strings.ToUpper(strings.ReplaceAll(m.Name, "-", "_"))+"="+at)
		}
	}
	return out
}

func (d *dataMounts) close() (err error) {
	for _, m := range d.all() {
		m.unshow()
		if m.held != nil {
			err = errors.Join(err, m.held.Close())
		}
	}
	*d = dataMounts{}
	return err
}

// LeaveData lets go of datasets and models; nobody reads in them any more.
func (s *Supplies) LeaveData() error { return s.at.data.close() }

// maxDataTries is after how many failures in a row, without a byte more, a version counts as out of reach.
const maxDataTries = 8

// BringData has all datasets and models that the replica names on this node, for as long as we live.
func (s *Supplies) BringData(ctx context.Context) error {
	for _, kind := range []struct {
		refs []mount.AssetRef
		to   *[]dataMount
	}{{s.at.Home.Replica.Mounts.Datasets, &s.at.data.datasets}, {s.at.Home.Replica.Mounts.Models, &s.at.data.models}} {
		for _, ref := range kind.refs {
			m := dataMount{AssetRef: ref}
			err := s.bringVersion(ctx, &m)
			if err != nil {
				return err
			}
			if s.node.Own && s.at.Home.Tenant.UID == 0 {
				if err := m.show(); err != nil {
					s.notes.Notice("%s", fault.T("%s can't be shown at %s (%v): its variable says where it is", "无法在 %[2]s 显示 %[1]s（%[3]v）：请通过其环境变量访问", nameOfVersion(ref), m.Path, err).Pack())
				}
			}
			*kind.to = append(*kind.to, m)
		}
	}
	return nil
}

func nameOfVersion(ref mount.AssetRef) string { return ref.Name + "@" + ref.Version }

// bringVersion tries until a version is there, or can't be.
func (s *Supplies) bringVersion(ctx context.Context, m *dataMount) error {
	ref := m.AssetRef
	began, told := s.clock.Now(), s.dataProgress(ref)
	defer s.brings(nil)
	for tries, pause := 1, retry.First; ; tries, pause = tries+1, min(2*pause, retry.Most) {
		var fetched bool
		var err error
		if ref.Source != nil && ref.Source.Folder != "" {
			m.folder, err = s.holdFolder(ctx, ref)
		} else {
			m.held, err = s.holdVersion(ctx, ref, func(done, total int64) { fetched = true; told(done, total) })
		}
		if err == nil {
			s.notes.Notice("%s", fault.T("%s (%s) is here after %.1f s, at %s", "%s（%s）%.1f 秒后就绪，位于 %s", nameOfVersion(ref), megabytes(ref.Size), s.clock.Now().Sub(began).Seconds(), s.seenAt(m)).Pack())
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if link.Permanent(err) {
			return asStartFault(fault.New(fault.Conflict, "VersionGone", fault.T("%s can't be had any more: it was deleted, or is not this project's.", "无法获取 %s：该版本已被删除，或不属于本项目。", nameOfVersion(ref))).Because(err))
		}
		if finalFault(err) {
			return asStartFault(named(err, ref))
		}
		if s := (*process.StartFault)(nil); errors.As(err, &s) {
			return err
		}
		if fetched {
			tries = 1 // it is on its way
		}
		if tries >= maxDataTries {
			return asStartFault(fault.New(fault.Unavailable, "DataUnreachable", fault.T("%s could not be brought in %d [try|tries]: %v.", "尝试 %[2]d 次仍无法获取 %[1]s：%[3]v。", nameOfVersion(ref), tries, err)).
				WithHint(fault.T("See that the node reaches the server and that its disk works.", "请检查节点能否访问服务器以及磁盘是否正常。")).Because(err))
		}
		s.log.Warn("version not here yet", "version", nameOfVersion(ref), "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.clock.After(pause):
		}
	}
}

// named says of which version a fault is.
func named(err error, ref mount.AssetRef) error {
	var f *fault.Error
	if ref.Source == nil || !errors.As(err, &f) {
		return err
	}
	out := *f
	out.Message = fault.Text{EN: nameOfVersion(ref) + ": " + f.Message.EN, ZH: nameOfVersion(ref) + "：" + f.Message.ZH}
	return &out
}

// seenAt is where its processes find it.
func (s *Supplies) seenAt(m *dataMount) string {
	if s.at.Home.Tenant.UID == 0 && !s.node.Own { // nothing is mounted on a machine that keeps nobody apart
		return m.root()
	}
	return m.Path
}

// holdFolder finds the folder that a version by reference is, or lies in, which must be what its listing says.
func (s *Supplies) holdFolder(ctx context.Context, ref mount.AssetRef) (*inside.Folder, error) {
	folder, err := volumeOf(s.at.Home.Replica, mount.Volume{Name: ref.Source.Folder, Path: ref.Path, ReadOnly: true}, s.at.Home.Folders)
	if err != nil {
		return nil, err
	}
	wall := s.at.choreWall()
	if !slices.ContainsFunc(wall.Folders, func(f inside.Folder) bool { return f.Path == folder.Path }) { // its code may lie there too
		wall.Folders = append(wall.Folders, inside.Folder{Path: folder.Path, Real: folder.Real, ReadOnly: true})
	}
	o := chore.Order{Compare: &chore.Compare{Dir: folder.Path, Below: folder.Below, Digest: ref.Digest}}
	if err := s.serveData(ctx, ref.Digest, wall, o, nil); err != nil {
		return nil, err
	}
	return &folder, nil
}

// account is that of a version's bucket.
func account(from *mount.S3Source, secrets map[api.SecretRef]string) *chore.Bucket {
	b := &chore.Bucket{At: *from}
	for key, to := range map[string]*string{
		api.KeyAccessKeyID: &b.ID, api.KeySecretAccessKey: &b.Secret, api.KeySessionToken: &b.Token, api.KeyEndpoint: &b.AccountEndpoint, api.KeyRegion: &b.AccountRegion,
	} {
		*to = secrets[api.SecretRef{Secret: from.Secret, Key: key}]
	}
	return b
}

// holdVersion has a version on the node, if need be by laying it out.
func (s *Supplies) holdVersion(ctx context.Context, ref mount.AssetRef, progress func(done, total int64)) (*depot.Held, error) {
	if s.node.Cache != "" && ref.Source == nil {
		held, err := depot.See(s.node.Cache, ref.Digest)
		if err == nil {
			return held, nil
		}
		s.log.Info("a version is not seen in the node's cache; it is fetched", "version", nameOfVersion(ref), "error", err)
	}
	d := depot.Depot{Dir: cmp.Or(s.node.Assets, filepath.Join(s.at.Home.Dir, record.DirAssets)), Drop: func(ctx context.Context, uid int, place, digest string) error {
		return s.dataChore(ctx, uid, place, chore.Order{Drop: &chore.Drop{Place: place, Digest: digest}})
	}}
	v := depot.Version{UID: s.at.Home.Tenant.UID, Digest: ref.Digest, Bytes: ref.Size}
	return d.Hold(ctx, v, func(ctx context.Context, place string) error {
		lay, wall := &chore.Lay{Place: place, Digest: v.Digest, Bytes: v.Bytes}, s.dataWall(v.UID, place)
		if ref.Source != nil && ref.Source.S3 != nil { // fetched through the project's network
			lay.From, wall = account(ref.Source.S3, s.secrets), s.at.choreWall()
			wall.Binds = append(wall.Binds, place)
		}
		return s.serveData(ctx, v.Digest, wall, chore.Order{Lay: lay}, progress)
	})
}

// dataWall is around who writes or removes files of a project: on no network, and with nothing else of the platform's.
func (s *Supplies) dataWall(uid int, place string) inside.Wall {
	return inside.Wall{
		Mark: string(s.at.Home.Replica.Name), UID: uid, GID: uid, Hide: s.at.Home.Tenant.Hide, Binds: []string{place}, Alone: true,
		Tmp: filepath.Join(s.at.Home.Dir, record.DirTmp), VarTmp: filepath.Join(s.at.Home.Dir, record.DirVarTmp),
	}
}

// dataChore does something in a project's folder, as that project.
func (s *Supplies) dataChore(ctx context.Context, uid int, place string, o chore.Order) error {
	way, err := sendAs(s.dataWall(uid, place), uid != 0, o, nil, []string{"FERMI_REPLICA=" + string(s.at.Home.Replica.Name)}, s.at.program())
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, way.kill)()
	_, err = way.result()
	return errors.Join(ctx.Err(), err)
}

// serveData has a process that has become the project do something about a version; it asks us for the list and the bytes, and we the server.
func (s *Supplies) serveData(ctx context.Context, digest string, wall inside.Wall, o chore.Order, progress func(done, total int64)) error {
	ours, theirs, err := steward.Pair()
	if err != nil {
		return err
	}
	defer ours.Close()
	way, err := s.at.sendTo(wall, o, theirs)
	_ = theirs.Close()
	if err != nil {
		return err
	}
	way.progress = progress
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, way.kill)()
	var brought error
	var wg sync.WaitGroup
	wg.Go(func() {
		brought = depot.Relay(ctx, ours, func(ctx context.Context, first, count int, w io.Writer) error {
			return s.from.FetchAsset(ctx, digest, first, count, w)
		})
		if brought != nil {
			_ = ours.Close() // it waits for no more
		}
	})
	_, err = way.result()
	_ = ours.Close()
	wg.Wait()
	if err != nil && brought != nil { // why it could not go on
		return fmt.Errorf("bring version %s: %w", digest, brought)
	}
	return err
}

func (s *Supplies) brings(b *engine.Bringing) {
	if s.Brings != nil {
		s.Brings(b)
	}
}

// dataTold is how often it is said how far a version is.
const dataTold = 5 * time.Second

// dataProgress tells the leader how far a version is and, if it takes long, the log.
func (s *Supplies) dataProgress(ref mount.AssetRef) func(done, total int64) {
	told := s.clock.Now()
	return func(done, total int64) {
		s.brings(&engine.Bringing{Name: nameOfVersion(ref), Done: done, Total: total})
		if now := s.clock.Now(); now.Sub(told) >= dataTold {
			told = now
			s.notes.Notice("%s", fault.T("%s: %s of %s", "%s：%s / %s", nameOfVersion(ref), megabytes(done), megabytes(total)).Pack())
		}
	}
}
