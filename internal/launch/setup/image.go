package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/chore"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/retry"
	"github.com/fermi-cluster/fermi/internal/launch/rootfs"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// dirStage is where the walls of a replica that runs in an image put their mounts together.
const dirStage = "stage"

// maxImageTries is after how many failures a registry counts as out of reach.
const maxImageTries = 8

// imageTold is how often it is said how far an image is.
const imageTold = 5 * time.Second

// bringImage has the image on this node, for as long as we live.
func (s *Supplies) bringImage(ctx context.Context) error {
	progress := s.imageProgress()
	began := s.clock.Now()
	for tries, pause := 1, retry.First; ; tries, pause = tries+1, min(2*pause, retry.Most) {
		image, err := s.fetchImage(ctx, progress)
		if err == nil {
			s.at.image = image
			if err := s.at.over.take(image.Digest, s.node.ImageUID); err != nil {
				return err
			}
			if image.Remembered != nil {
				s.log.Warn("the registry was not reached; the image is what it was before", "error", image.Remembered)
				s.notes.Notice("%s", fault.T("image %s: its registry was not reached, what it was before is used", "镜像 %s：无法访问其仓库，使用先前的版本", s.at.Home.Replica.Image).Pack())
			}
			if s.at.over.keeps {
				return s.at.over.heedKept(image.Says, s.at.Home.Replica)
			}
			s.notes.Notice("%s", fault.T("image %s is %s, here after %.1f s", "镜像 %s 为 %s，%.1f 秒后就绪", s.at.Home.Replica.Image, image.Digest, s.clock.Now().Sub(began).Seconds()).Pack())
			return s.heed(image.Says)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if finalFault(err) {
			return asStartFault(err)
		}
		if tries >= maxImageTries {
			return asStartFault(fault.New(fault.Unavailable, "RegistryUnreachable", fault.T("The image %s could not be brought in %d [try|tries]: %v.", "尝试 %[2]d 次仍无法获取镜像 %[1]s：%[3]v。", s.at.Home.Replica.Image, tries, err)).
				WithHint(fault.T("Check its name, and that the node reaches its registry.", "请检查名称以及节点能否访问镜像仓库。")).Because(err))
		}
		s.log.Warn("image not here yet", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.clock.After(pause):
		}
	}
}

// dirKeeper is the temporary folder of who keeps images.
const dirKeeper = "keeper"

// fetchImage has two processes bring the image: one that has become the tenant asks the registry, on the tenant's network; one of a uid that is nobody's believes
// what has the right digest, keeps it for all projects of the node, and lays it out.
func (s *Supplies) fetchImage(ctx context.Context, progress func(done, total int64)) (*rootfs.Image, error) {
	uid := s.node.ImageUID
	if uid == 0 || uid == s.at.Home.Tenant.UID {
		return nil, errors.New("no uid is set aside for images")
	}
	tmp := filepath.Join(s.at.Home.Dir, dirKeeper)
	if err := os.Mkdir(tmp, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := errors.Join(os.Lchown(tmp, uid, uid), rootfs.Give(s.node.Images, uid)); err != nil {
		return nil, err
	}
	ours, theirs, err := steward.FilePair()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	defer theirs.Close()
	reference := s.at.over.pinned()
	fetch := &chore.Fetch{Reference: reference}
	for _, a := range s.creds.registries {
		fetch.Accounts = append(fetch.Accounts, chore.Account(a))
	}
	asks, err := s.at.sendTo(s.at.choreWall(), chore.Order{Fetch: fetch}, ours)
	if err != nil {
		return nil, err
	}
	defer func() { asks.kill(); _, _ = asks.result() }()
	wall := inside.Wall{Mark: string(s.at.Home.Replica.Name), UID: uid, GID: uid, Hide: s.at.Home.Tenant.Hide, Binds: []string{s.node.Images}, Tmp: tmp, VarTmp: tmp, Alone: true}
	keeps, err := s.at.sendTo(wall, chore.Order{Keep: &chore.Keep{Dir: s.node.Images, Reference: reference, Owner: s.at.Home.Tenant.UID, Project: s.at.Home.Replica.Project, Most: s.node.ImageMost, Known: s.at.Home.Replica.Inside != ""}}, theirs)
	if err != nil {
		return nil, err
	}
	keeps.progress = progress
	stop := context.AfterFunc(ctx, keeps.kill)
	r, err := keeps.result()
	stop()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case r.Image == nil:
		return nil, chore.ErrNoWord
	}
	image, err := rootfs.Held(ctx, s.node.Images, r.Image.Digest, uid, s.at.Home.Tenant.UID)
	if err != nil {
		return nil, err
	}
	image.Env, image.Says = r.Image.Env, r.Image.Says
	if r.Image.Remembered != "" {
		image.Remembered = errors.New(r.Image.Remembered)
	}
	return image, nil
}

// imageProgress says in the log how far it is, if it takes long.
func (s *Supplies) imageProgress() func(done, total int64) {
	var mu sync.Mutex
	told := s.clock.Now()
	return func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		now := s.clock.Now()
		if now.Sub(told) < imageTold {
			return
		}
		told = now
		s.notes.Notice("%s", fault.T("image %s: %s of %s", "镜像 %s：%s / %s", s.at.Home.Replica.Image, megabytes(done), megabytes(total)).Pack())
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/1e6) }

// LeaveImage lets go of it; nobody runs in it any more.
func (e *Enclosure) LeaveImage() error {
	if e.image == nil {
		return nil
	}
	return e.image.Close()
}

// dirDriver is where the libraries of the node's driver are in an image; their own folders there are the image's.
const dirDriver = "/opt/fermi/driver"

// driver is what the node's driver adds to an image for the devices: where → what. Device files are in /dev, which every
// wall has.
func driver(devices []api.Device) map[string]string {
	files, libraries := recipe.Driver(devices)
	placed := map[string]string{}
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			placed[file] = file
		}
	}
	for _, name := range libraries {
		for _, dir := range recipe.LibraryFolders {
			file := filepath.Join(dir, name)
			if _, err := os.Stat(file); err == nil {
				placed[path.Join(dirDriver, name)] = file
				break
			}
		}
	}
	return placed
}
