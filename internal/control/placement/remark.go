package placement

// remark is something that the model noticed and that people should hear of.
type remark struct {
	weight int // a slog.Level
	text   string
	about  []any // names and values, in turn
}

const (
	passing = -4 // for who looks closely
	worse   = 4  // it goes on, but not as it should
	grave   = 8  // somebody must act
)

// remarks are those that were not said yet. The model only notes them; its owner takes and says them.
type remarks struct {
	list []remark
	more int // that were too many to keep
}

// maxRemarks are kept until they are taken: an owner that starts may meet one for each object.
const maxRemarks = 1000

func (r *remarks) note(w int, text string, about ...any) {
	if len(r.list) >= maxRemarks {
		r.more++
		return
	}
	r.list = append(r.list, remark{w, text, about})
}

// take gives what was not said yet, once.
func (r *remarks) take() (out []remark) {
	if out = r.list; r.more > 0 {
		out = append(out, remark{worse, "more was noticed than is kept", []any{"count", r.more}})
	}
	*r = remarks{}
	return out
}
