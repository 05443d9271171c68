package models

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/manifest"
	thirdparty "github.com/sluice-rag/sluice/third_party"
)

// TestHeadsOfTheManifest: rerankers and classifiers say what they are, and have what embed reads.
func TestHeadsOfTheManifest(t *testing.T) {
	m, err := manifest.Parse(thirdparty.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[manifest.Kind]int{}
	for _, x := range m.Models {
		if x.Kind == manifest.Encoder || x.Kind == manifest.Generator {
			continue
		}
		kinds[x.Kind]++
		text, _, err := settings(x)
		if err != nil || !strings.Contains(string(text), "\nkind: "+string(x.Kind)+"\n") ||
			strings.Contains(string(text), "pooling") {
			t.Errorf("%s: %v\n%s", x.Name, err, text)
		}
		if limit := x.Name == "bge-reranker-v2-m3"; limit != strings.Contains(string(text), "\nmax_tokens: 1024\n") {
			t.Errorf("%s: %s", x.Name, text)
		}
		has := func(path string) bool {
			return slices.ContainsFunc(x.Files, func(f manifest.File) bool { return f.Path == path })
		}
		if x.Kind == manifest.OCR {
			if !has("det.onnx") || !has("cls.onnx") || !has("rec.onnx") {
				t.Errorf("%s lacks a file: %+v", x.Name, x.Files)
			}
			continue
		}
		if !has("config.json") || !has("model.safetensors") || !has("tokenizer.json") &&
			!(has("vocab.txt") && has("tokenizer_config.json")) {
			t.Errorf("%s lacks a file: %+v", x.Name, x.Files)
		}
	}
	if kinds[manifest.Reranker] < 3 || kinds[manifest.TokenClassifier] < 2 || kinds[manifest.Classifier] < 1 {
		t.Errorf("%v", kinds)
	}
}
