package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// ListOptions select and order objects. The zero value is the first page of everything visible.
type ListOptions struct {
	Project string // "": the server's choice, all visible projects
	Limit   int    // 0: the server's choice
	Cursor  string // Page.Next of the page before
	Sort    string // createdAt, name, displayName, updatedAt; "-" in front turns it round
	Phase   []string
	Owner   string
	Queue   string
	Labels  map[string]string
	Search  string
	// MinRevision makes the read see at least this write.
	MinRevision int64
}

func (o ListOptions) query() url.Values {
	q := url.Values{}
	set(q, "project", o.Project)
	set(q, "cursor", o.Cursor)
	set(q, "sort", o.Sort)
	set(q, "owner", o.Owner)
	set(q, "queue", o.Queue)
	set(q, "search", o.Search)
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.MinRevision > 0 {
		q.Set("minRevision", strconv.FormatInt(o.MinRevision, 10))
	}
	for _, p := range o.Phase {
		q.Add("phase", p)
	}
	for k, v := range o.Labels {
		q.Add("label", k+"="+v)
	}
	return q
}

func set(q url.Values, key, value string) {
	if value != "" {
		q.Set(key, value)
	}
}

// Page is a part of a list.
type Page[T any] struct {
	Items    []T
	Next     string // "" when this was the last one
	Revision int64
}

type rawPage struct {
	Items    []json.RawMessage `json:"items"`
	Next     string            `json:"next"`
	Revision int64             `json:"revision"`
}

func plural(kind api.Kind) (string, error) {
	info, ok := api.InfoOf(kind)
	if !ok {
		return "", fault.New(fault.Invalid, "UnknownKind", fault.T("There is no kind %q.", "没有 %q 这种对象。", kind))
	}
	return info.Plural, nil
}

func objectPath(kind api.Kind, name string) (string, error) {
	p, err := plural(kind)
	if err != nil {
		return "", err
	}
	if name == "" || name == "." || name == ".." {
		return "", fault.New(fault.Invalid, "NoName", fault.T("A name is missing.", "缺少名称。"))
	}
	return "/" + p + "/" + url.PathEscape(name), nil
}

func inProject(project string, opts ...Option) url.Values {
	q := url.Values{}
	set(q, "project", project)
	for _, o := range opts {
		o(q)
	}
	return q
}

func decodeObject(kind api.Kind, data []byte) (api.Object, error) {
	obj := api.MustInfo(kind).New()
	return obj, json.Unmarshal(data, obj)
}

// Get finds one object by name or id.
func (c objects) Get(ctx context.Context, kind api.Kind, project, name string) (api.Object, error) {
	path, err := objectPath(kind, name)
	if err != nil {
		return nil, err
	}
	obj := api.MustInfo(kind).New()
	if err := c.wire.read(ctx, path, inProject(project), obj); err != nil {
		return nil, err
	}
	return obj, nil
}

// List reads one page.
func (c objects) List(ctx context.Context, kind api.Kind, opts ListOptions) (Page[api.Object], error) {
	p, err := plural(kind)
	if err != nil {
		return Page[api.Object]{}, err
	}
	var raw rawPage
	if err := c.wire.read(ctx, "/"+p, opts.query(), &raw); err != nil {
		return Page[api.Object]{}, err
	}
	page := Page[api.Object]{Next: raw.Next, Revision: raw.Revision, Items: make([]api.Object, 0, len(raw.Items))}
	for _, item := range raw.Items {
		obj, err := decodeObject(kind, item)
		if err != nil {
			return page, notFermi(c.wire.Server(), err)
		}
		page.Items = append(page.Items, obj)
	}
	return page, nil
}

// Create makes an object; dryRun only validates it and answers what it would be.
func (c *Client) Create(ctx context.Context, obj api.Object, dryRun bool) (api.Object, error) {
	switch o := obj.(type) {
	case *api.TrainingTask:
		made, err := c.Submit(ctx, o, dryRun)
		if err != nil || made.Task == nil {
			return obj, err
		}
		return made.Task, nil
	case *api.Token:
		made, err := c.CreateToken(ctx, o, dryRun)
		if err != nil || made.Object == nil {
			return obj, err
		}
		return made.Object, nil
	}
	p, err := plural(obj.Kind())
	if err != nil {
		return nil, err
	}
	out := api.MustInfo(obj.Kind()).New()
	if err := c.write(ctx, http.MethodPost, "/"+p, dry(obj.GetMeta().Project, dryRun), obj, out); err != nil {
		return nil, err
	}
	return out, nil
}

func dry(project string, dryRun bool) url.Values {
	q := inProject(project)
	if dryRun {
		q.Set("dryRun", "true")
	}
	return q
}

// Update replaces an object; its metadata must carry the revision it was made from.
func (c objects) Update(ctx context.Context, obj api.Object, dryRun bool) (api.Object, error) {
	meta := obj.GetMeta()
	path, err := objectPath(obj.Kind(), meta.Name)
	if err != nil {
		return nil, err
	}
	out := api.MustInfo(obj.Kind()).New()
	if err := c.wire.write(ctx, http.MethodPut, path, dry(meta.Project, dryRun), obj, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Delete asks for the end of an object. A task goes when its work has ended.
func (c objects) Delete(ctx context.Context, kind api.Kind, project, name string, opts ...Option) error {
	path, err := objectPath(kind, name)
	if err != nil {
		return err
	}
	return c.wire.write(ctx, http.MethodDelete, path, inProject(project, opts...), nil, nil)
}

// Option says more about a call.
type Option func(url.Values)

// Force ends a task also when another trains inside it; that one ends with it.
func Force(q url.Values) { q.Set("force", "true") }

// Get is Client.Get with a type: client.Get[*api.Zone](ctx, c, "", "beijing-1").
func Get[T api.Object](ctx context.Context, c *Client, project, name string) (T, error) {
	var zero T
	obj, err := c.Get(ctx, zero.Kind(), project, name)
	if err != nil {
		return zero, err
	}
	return obj.(T), nil
}

// List is Client.List with a type.
func List[T api.Object](ctx context.Context, c *Client, opts ListOptions) (Page[T], error) {
	var zero T
	page, err := c.List(ctx, zero.Kind(), opts)
	out := Page[T]{Next: page.Next, Revision: page.Revision}
	for _, obj := range page.Items {
		out.Items = append(out.Items, obj.(T))
	}
	return out, err
}

// Create is Client.Create with a type.
func Create[T api.Object](ctx context.Context, c *Client, obj T) (T, error) {
	made, err := c.Create(ctx, obj, false)
	if err != nil {
		var zero T
		return zero, err
	}
	return made.(T), nil
}

// Update is Client.Update with a type.
func Update[T api.Object](ctx context.Context, c *Client, obj T) (T, error) {
	made, err := c.Update(ctx, obj, false)
	if err != nil {
		var zero T
		return zero, err
	}
	return made.(T), nil
}

// Walk visits every object the options select, page by page, until visit says false.
func (c objects) Walk(ctx context.Context, kind api.Kind, opts ListOptions, visit func(api.Object) bool) error {
	for {
		page, err := c.List(ctx, kind, opts)
		if err != nil {
			return err
		}
		for _, obj := range page.Items {
			if !visit(obj) {
				return nil
			}
		}
		if page.Next == "" {
			return nil
		}
		opts.Cursor = page.Next
	}
}
