package service

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// message is one of a talk.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func chat() *cobra.Command {
	return &cobra.Command{
		Use: "chat NAME [WORDS…]", Short: cli.Both("Talk with a service that speaks OpenAI's chat", "与支持 OpenAI 对话接口的服务对话"), Args: cobra.MinimumNArgs(1),
		Long: cli.Both("Talk with a service that speaks OpenAI's chat. With WORDS it answers once; without, each line of the input is a question, until its end.",
			"与支持 OpenAI 对话接口的服务对话。给出 WORDS 时只回答一次；否则逐行读取问题，直到输入结束。"),
		Example: "  fermi chat spirals \"1.5 -0.5\"",
		RunE: with(func(cmd *cobra.Command, w *where, args []string) error {
			if len(args) > 1 {
				_, err := w.ask(cmd.Context(), args[0], []message{{"user", strings.Join(args[1:], " ")}})
				return err
			}
			var talk []message
			in := bufio.NewScanner(cmd.InOrStdin())
			in.Buffer(nil, 1<<20)
			for in.Scan() {
				if strings.TrimSpace(in.Text()) == "" {
					continue
				}
				talk = append(talk, message{"user", in.Text()})
				answer, err := w.ask(cmd.Context(), args[0], talk)
				if err != nil {
					return err
				}
				talk = append(talk, message{"assistant", answer})
			}
			return in.Err()
		}),
	}
}

// ask asks one question and writes the answer as it comes.
func (w *where) ask(ctx context.Context, name string, talk []message) (string, error) {
	body, err := json.Marshal(map[string]any{"model": name, "stream": true, "messages": talk})
	if err != nil {
		return "", err
	}
	resp, err := client.Ask(ctx, w.Client, http.MethodPost, "/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var whole strings.Builder
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			if data == "[DONE]" {
				fmt.Fprintln(w.Cmd.OutOrStdout())
				return whole.String(), nil
			}
			var chunk struct {
				Choices []struct{ Delta struct{ Content string } }
			}
			if json.Unmarshal([]byte(data), &chunk) == nil && len(chunk.Choices) > 0 {
				whole.WriteString(chunk.Choices[0].Delta.Content)
				fmt.Fprint(w.Cmd.OutOrStdout(), chunk.Choices[0].Delta.Content)
			}
		}
		if err != nil {
			if err == io.EOF {
				err = fault.New(fault.Unavailable, "Cut", fault.T("The answer broke off.", "回答中断。"))
			}
			return "", err
		}
	}
}
