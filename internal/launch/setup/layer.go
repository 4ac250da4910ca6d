package setup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/layer"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/rootfs"
)

// What an environment writes over its image stays beside its home, in folders that root alone can enter:
//
//	layers/ID/book.json   which image each reference was when it was written over first
//	layers/ID/HEX/upper   what was written over the image of this digest
//	layers/ID/HEX/work    the kernel's
//
// A layer fits the image that it was written over and no other, so a tag that has moved stays what it was until somebody resets the environment.

const fileLayers = "book.json"

// layerBook is who wrote over what.
type layerBook struct {
	Resets int               `json:"resets,omitempty"`
	Images map[string]string `json:"images,omitempty"` // reference → digest
	Laid   string            `json:"laid,omitempty"`   // the version with which the layer began
}

// LayersOf is where what was written over the images of a replica's owner is kept; "": nobody in there can write over one.
func LayersOf(dir string, r engine.Replica, t record.Tenant) string {
	if t.IDs == 0 || r.Image == "" || r.Inside != "" || r.Home == "" || !api.IsName(r.Home) { // a layer is written by one at a time: by who lends
		return ""
	}
	return filepath.Join(filepath.Dir(filepath.Dir(dir)), record.DirLayers, r.Home)
}

// layers are those of a replica's owner, and the one that is in use.
type layers struct {
	at        string // LayersOf
	reference string // of its image
	resets    int    // that were asked for
	saves     bool   // they are looked at to be saved, and change in nothing
	keeps     bool   // likewise, by a chore alone: its processes run in the node's own system
	tenant    record.Tenant
	used      string       // the folder of the layer over the image that is here; "": none
	kept      string       // the folder of the layer that is kept; "": there is none
	begins    string       // the version with which the layer begins that is still to be laid; "": none
	over      string       // the digest of the image that it was written over
	maker     int          // who the image's files belong to
	dir       string       // of the image, where its processes start; "": where they do without one
	user      *rootfs.User // that the image wants its commands to be; nil: root
}

func layersOf(dir string, r engine.Replica, t record.Tenant) *layers {
	return &layers{at: LayersOf(dir, r, t), reference: r.Image, resets: r.Resets, saves: r.Images == engine.ImageSave, keeps: r.Images == engine.ImageKeep, tenant: t}
}

// open makes the folder, and empties it where that was asked for since.
func (l *layers) open() error {
	if l.at == "" {
		return nil
	}
	if err := os.Mkdir(filepath.Dir(l.at), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var b layerBook
	if _, err := record.Read(l.at, fileLayers, &b); err != nil {
		return err
	}
	if b.Resets < l.resets {
		if err := os.RemoveAll(l.at); err != nil {
			return err
		}
		b = layerBook{Resets: l.resets}
	}
	if err := os.Mkdir(l.at, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return record.Write(l.at, fileLayers, b)
}

// pinned is the reference to ask for: that of the image which was written over, if there is one.
func (l *layers) pinned() string {
	var b layerBook
	if l.at == "" {
		return l.reference
	}
	if _, err := record.Read(l.at, fileLayers, &b); err != nil {
		return l.reference
	}
	was := b.Images[l.reference]
	if l.begins != "" {
		was = l.over
	}
	ref, err := name.ParseReference(l.reference)
	if was == "" || err != nil {
		return l.reference
	}
	return ref.Context().Digest(was).Name()
}

// wants has the layer begin with what a version keeps of one, unless it has begun so already. image is what the version says; "": it keeps none.
func (l *layers) wants(version, image string) error {
	if image == "" {
		return nil
	}
	if !isDigest.MatchString(image) {
		return fault.New(fault.Invalid, "NoLayer", fault.T("What was kept of what is installed over the image is damaged.", "所保存的镜像之上的内容已损坏。")).
			WithHint(fault.T("Move without it: --without-layer.", "可不保留该内容进行迁移：--without-layer。"))
	}
	if l.at == "" {
		return fault.New(fault.Conflict, "NoLayerHere", fault.T("Nothing that is written over an image is kept at this place, so what was installed can't come along.", "该位置不保留在镜像之上写入的内容，因此已安装的内容无法随之迁移。")).
			WithHint(fault.T("Keep it as an image first (fermi env save), or move without it: --without-layer.", "可先保存为镜像（fermi env save），或不保留该内容进行迁移：--without-layer。"))
	}
	var b layerBook
	if _, err := record.Read(l.at, fileLayers, &b); err != nil || b.Laid == version {
		return err
	}
	l.begins, l.over = version, image
	return nil
}

// laid notes that the layer has what it begins with.
func (l *layers) laid() error {
	var b layerBook
	_, err := record.Read(l.at, fileLayers, &b)
	if err == nil {
		b.Laid = l.begins
		err = record.Write(l.at, fileLayers, b)
	}
	return err
}

// take makes the layer over the image with this digest, whose files are maker's, and notes it.
func (l *layers) take(digest string, maker int) error {
	if l.at == "" {
		return nil
	}
	_, hex, _ := strings.Cut(digest, ":")
	used := filepath.Join(l.at, hex)
	if l.saves {
		if !record.Exists(used, inside.LayerUpper) {
			return process.CantStart(process.CodeNotExecutable, nil,
				"Nothing was written over the image %s by that environment on this node.", "该环境在此节点上没有在镜像 %s 之上写入内容。", l.reference)
		}
		l.used, l.maker = used, maker
		return nil
	}
	if l.keeps {
		if record.Exists(used, inside.LayerUpper) {
			l.kept, l.maker = used, maker
		}
		return nil
	}
	if l.begins != "" { // of a try that was cut off
		if err := os.RemoveAll(used); err != nil {
			return err
		}
	}
	var b layerBook
	if _, err := record.Read(l.at, fileLayers, &b); err != nil {
		return err
	}
	if b.Images[l.reference] != digest {
		if b.Images == nil {
			b.Images = map[string]string{}
		}
		b.Images[l.reference] = digest
		if err := record.Write(l.at, fileLayers, b); err != nil {
			return err
		}
	}
	upper := filepath.Join(used, inside.LayerUpper)
	for _, dir := range []string{used, upper, filepath.Join(used, inside.LayerWork)} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := errors.Join(os.Chmod(upper, 0o755), os.Lchown(upper, l.tenant.UID, l.tenant.UID)); err != nil { // the image's own root, as it is seen
		return err
	}
	l.used, l.maker = used, maker
	return nil
}

// as makes commands in there a user of the image; what is written over it at its top stays root's.
func (l *layers) as(u *rootfs.User) error {
	l.user = u
	if l.saves || l.keeps {
		return nil
	}
	return os.Lchown(filepath.Join(l.used, inside.LayerUpper), idsOf(l.tenant, u.UID)[0].Outside, idsOf(l.tenant, u.GID)[0].Outside)
}

// rooted says that the processes are root of a user namespace in their image.
func (l *layers) rooted() bool { return l.used != "" }

// root makes a wall one in which the tenant is root, if it is to be.
func (l *layers) root(w *inside.Wall) {
	if !l.rooted() {
		return
	}
	l.number(w)
	w.Layer = l.used
	if u := l.user; u != nil {
		w.User = inside.User{UID: u.UID, GID: u.GID, Groups: u.Groups}
	}
	if l.saves { // as root, who sees all of it
		w.Frozen, w.Layer, w.Base, w.User = l.used, "", layer.Base, inside.User{}
	}
}

// number gives a wall the numbers with which the layer was and will be written.
func (l *layers) number(w *inside.Wall) {
	w.Maker, w.IDs, w.GroupIDs = l.maker, idsOf(l.tenant, 0), nil
	if u := l.user; u != nil {
		w.IDs, w.GroupIDs = idsOf(l.tenant, u.UID), idsOf(l.tenant, u.GID)
	}
}

// idsOf are the numbers of a user namespace in which one of them, whose own the home is, is the project's uid, and all others are of its block.
func idsOf(t record.Tenant, own int) []inside.IDs {
	if own == 0 {
		return []inside.IDs{{Inside: 0, Outside: t.UID, Count: 1}, {Inside: 1, Outside: t.IDs + 1, Count: record.IDsEach - 1}}
	}
	ids := []inside.IDs{{Inside: 0, Outside: t.IDs + own, Count: 1}} // root gets the number that is free for it
	if own > 1 {
		ids = append(ids, inside.IDs{Inside: 1, Outside: t.IDs + 1, Count: own - 1})
	}
	ids = append(ids, inside.IDs{Inside: own, Outside: t.UID, Count: 1})
	if own < record.IDsEach-1 {
		ids = append(ids, inside.IDs{Inside: own + 1, Outside: t.IDs + own + 1, Count: record.IDsEach - 1 - own})
	}
	return ids
}

// userName is who the processes are told they are.
func (l *layers) userName(project string) string {
	switch {
	case l.rooted() && l.user != nil:
		return l.user.Name
	case l.rooted():
		return "root"
	}
	return project
}

// layerFault says that what was written over an image keeps it from being used.
func layerFault(r engine.Replica, no *inside.Refused) error {
	return process.CantStart(process.CodeNotExecutable, no,
		"What was written over the image %s has something else at %s, where the environment needs a folder or file of its own; throw it away with: fermi env reset %s.",
		"在镜像 %s 之上写入的内容占用了 %s，而环境需要在该处放置自己的目录或文件；可用 fermi env reset %s 清除。", r.Image, no.File, r.Task)
}
