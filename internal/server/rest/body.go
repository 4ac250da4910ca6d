package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
)

// MediaKnown refuses a body that says to be of a type the route does not read. One that says
// nothing is read as what it should be.
func (c *Call) MediaKnown() error {
	given := c.R.Header.Get("Content-Type")
	if c.Route.Body == nil || given == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(given)
	if err == nil && slices.Contains(c.Route.Body.Media, media) {
		return nil
	}
	return fault.New(fault.BadMedia, "BadContentType", fault.T(
		"A body of type %q is not read here; send %s.", "此处不接受 %q 类型的请求体，请发送 %s。", refuse.Clip(given, 100), strings.Join(c.Route.Body.Media, ", ")))
}

// ReadJSON reads a small, strict and optional JSON body; fields are those it may have.
func (c *Call) ReadJSON(into any, fields string) error {
	data, err := c.ReadBody(64 << 10)
	if err != nil || len(data) == 0 {
		return err
	}
	return Strictly(data, into, fields)
}

// Strictly decodes JSON whose fields are all known.
func Strictly(data []byte, into any, fields string) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil || dec.More() {
		return fault.New(fault.Invalid, "BadBody", fault.T(
			"The body is not the JSON object expected here; fields: %s.", "请求体不是此处要求的 JSON 对象；可用字段：%s。", fields)).Because(err)
	}
	return nil
}

// ReadBody reads a whole body of at most limit bytes.
func (c *Call) ReadBody(limit int64) ([]byte, error) {
	if c.R.ContentLength > limit {
		return nil, BodyTooLarge(limit)
	}
	_ = c.Control.SetReadDeadline(time.Now().Add(c.stall))
	data, err := io.ReadAll(http.MaxBytesReader(c.W, c.R.Body, limit))
	_ = c.Control.SetReadDeadline(time.Time{})
	return data, BodyFault(err, limit)
}

func BodyFault(err error, limit int64) error {
	var tooLarge *http.MaxBytesError
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return BodyTooLarge(limit)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fault.New(fault.Timeout, "BodyTimeout", fault.T("The request's body did not arrive in time.", "请求体未能及时到达。")).Because(err)
	}
	var ours *fault.Error
	if errors.As(err, &ours) {
		return err
	}
	return fault.New(fault.Invalid, "BadBody", fault.T("The request's body could not be read.", "无法读取请求体。")).Because(err)
}

func BodyTooLarge(limit int64) error {
	return fault.New(fault.TooLarge, "BodyTooLarge", fault.T(
		"The request's body is larger than %d bytes.", "请求体超过 %d 字节。", limit))
}

// stalling gives every read of a long body its own deadline, so that a slow upload may take
// hours but a silent one may not.
type stalling struct {
	c *Call
	r io.Reader
}

func (s stalling) Read(p []byte) (int, error) {
	_ = s.c.Control.SetReadDeadline(time.Now().Add(s.c.stall))
	n, err := 0, s.c.WasCut()
	if err == nil {
		n, err = s.r.Read(p)
		_ = s.c.Control.SetReadDeadline(time.Time{})
	}
	if cut := s.c.WasCut(); cut != nil {
		// The deadline we moved may be the one that was to cut: net/http still reads what is left of
		// the body after us, and would wait for it.
		_ = s.c.Control.SetReadDeadline(time.Unix(1, 0))
		return n, cut
	}
	return n, err
}

// Uploaded is the request's body, for a long upload.
func (c *Call) Uploaded() io.Reader { return stalling{c, c.R.Body} }

// Patient gives every write of a long answer its own deadline.
type Patient struct{ c *Call }

// Patient is where a long answer is written to.
func (c *Call) Patient() Patient { return Patient{c} }

func (p Patient) Header() http.Header { return p.c.W.Header() }
func (p Patient) WriteHeader(status int) {
	p.c.Status = status
	p.c.W.WriteHeader(status)
}

func (p Patient) Write(b []byte) (int, error) {
	if p.c.Status == 0 {
		p.c.Status = http.StatusOK
	}
	_ = p.c.Control.SetWriteDeadline(time.Now().Add(p.c.stall))
	if err := p.c.WasCut(); err != nil {
		return 0, err
	}
	return p.c.W.Write(b)
}

// Attachment is the header of bytes that are to be saved, not shown.
func Attachment(name string) string {
	if v := mime.FormatMediaType("attachment", map[string]string{"filename": name}); v != "" {
		return v
	}
	return "attachment; filename*=UTF-8''" + url.PathEscape(name)
}
