// Command yamlreference records what the libraries of KubeRay and Kaito read in a text.
//
// To add texts, append {"text": "..."} to answers.json, then run in this folder
//
//	go mod tidy && go run . < answers.json > new.json && mv new.json answers.json
//
// The versions in go.mod are those of KubeRay 1.7 and of Kaito. None of these consumers reads
// strictly: a key that stands twice is no error.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	yamlv2 "gopkg.in/yaml.v2"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// answer holds what each consumer gets, or its error.
//
// command is the argument `--runtime-env-json` of KubeRay's submitter; body is a request to Ray,
// such as a Serve config; words are the options of Kaito's model server, under the key vllm.
type answer struct {
	Text    string          `json:"text"`
	Command json.RawMessage `json:"command,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
	Words   json.RawMessage `json:"words,omitempty"`
	Errors  []string        `json:"errors,omitempty"`
}

func read(text string) answer {
	found := answer{Text: text}
	if command, err := yaml.YAMLToJSON([]byte(text)); err != nil {
		found.Errors = append(found.Errors, "command: "+err.Error())
	} else {
		found.Command = command
	}
	body := map[string]any{}
	if err := utilyaml.Unmarshal([]byte(text), &body); err != nil {
		found.Errors = append(found.Errors, "body: "+err.Error())
	} else {
		found.Body = must(json.Marshal(body))
	}
	var options struct {
		Words map[string]string `yaml:"vllm"`
	}
	if err := yamlv2.Unmarshal([]byte(text), &options); err != nil {
		found.Errors = append(found.Errors, "words: "+err.Error())
	} else {
		found.Words = must(json.Marshal(options.Words))
	}
	return found
}

func must(encoded []byte, err error) []byte {
	if err != nil {
		log.Fatal(err)
	}
	return encoded
}

func main() {
	var answers []answer
	if err := json.NewDecoder(os.Stdin).Decode(&answers); err != nil {
		log.Fatal(err)
	}
	lines := make([]string, len(answers))
	for i, each := range answers {
		lines[i] = string(must(json.Marshal(read(each.Text))))
	}
	fmt.Printf("[\n%s\n]\n", strings.Join(lines, ",\n"))
}
