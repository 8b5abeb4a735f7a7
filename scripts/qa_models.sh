#!/bin/bash
# The models of scripts/qa.sh: qa_models.sh COPY_OF_CHECKOUT TARGET. Made by the
# checkout's generators, in ONNX where they have a choice.
set -u
common=$1/qa/common
target=$2
mkdir -p "$target" && cd "$common" || exit 1
status=0
make_models() {
  local script=$1
  shift
  echo "== $script $*"
  python "$script" "$@" || { echo "FAILED: $script $*"; status=1; }
}
make_models gen_qa_models.py --onnx --onnx_opset=13 --models_dir="$target/qa_model_repository"
make_models gen_qa_models.py --onnx --onnx_opset=13 --variable --models_dir="$target/qa_variable_model_repository"
make_models gen_qa_identity_models.py --onnx --onnx_opset=13 --models_dir="$target/qa_identity_model_repository"
make_models gen_qa_reshape_models.py --onnx --onnx_opset=13 --variable --models_dir="$target/qa_reshape_model_repository"
make_models gen_qa_sequence_models.py --onnx --onnx_opset=13 --models_dir="$target/qa_sequence_model_repository"
make_models gen_qa_sequence_models.py --onnx --onnx_opset=13 --variable --models_dir="$target/qa_variable_sequence_model_repository"
make_models gen_qa_implicit_models.py --onnx --onnx_opset=13 --models_dir="$target/qa_sequence_implicit_model_repository"
make_models gen_qa_dyna_sequence_models.py --onnx --onnx_opset=13 --models_dir="$target/qa_dyna_sequence_model_repository"
make_models gen_qa_ragged_models.py --onnx --onnx_opset=13 --models_dir="$target/qa_ragged_model_repository"
make_models gen_qa_models.py --ensemble --models_dir="$target/qa_ensemble_model_repository/qa_model_repository"
make_models gen_qa_models.py --ensemble --variable --models_dir="$target/qa_ensemble_model_repository/qa_variable_model_repository"
make_models gen_qa_reshape_models.py --ensemble --models_dir="$target/qa_ensemble_model_repository/qa_reshape_model_repository"
make_models gen_qa_identity_models.py --ensemble --models_dir="$target/qa_ensemble_model_repository/qa_identity_model_repository"
make_models gen_qa_sequence_models.py --ensemble --models_dir="$target/qa_ensemble_model_repository/qa_sequence_model_repository"
make_models gen_qa_sequence_models.py --ensemble --variable \
  --models_dir="$target/qa_ensemble_model_repository/qa_variable_sequence_model_repository"
make_models gen_qa_implicit_models.py --onnx --onnx_opset=13 --variable \
  --models_dir="$target/qa_variable_sequence_implicit_model_repository"
make_models gen_qa_dyna_sequence_implicit_models.py --onnx --onnx_opset=13 --models_dir="$target/qa_dyna_sequence_implicit_model_repository"
make_models gen_qa_ort_scalar_models.py --onnx_opset=13 --models_dir="$target/qa_scalar_models"
python -c 'import torch' 2>/dev/null &&
  make_models gen_qa_models.py --libtorch --models_dir="$target/qa_model_repository"
# Those of AOTInductor are compiled.
if python -c 'import torch' 2>/dev/null && command -v g++ >/dev/null; then
  make_models gen_qa_models.py --torch-aoti --models_dir="$target/qa_model_repository"
  make_models gen_qa_implicit_models.py --torch-aoti --models_dir="$target/qa_sequence_implicit_model_repository"
  ! python -c 'import torchvision' 2>/dev/null || make_models gen_qa_models.py --torchvision-aoti --models_dir="$target/qa_model_repository"
fi
# Those of TensorRT have shapes of their own.
python - "$target/qa_reshape_model_repository" <<'END' || status=1
import argparse, os, sys, tempfile
import gen_qa_reshape_models as gen, numpy, onnx, test_util

gen.onnx, gen.tu, gen.FLAGS = onnx, test_util, argparse.Namespace(onnx=True, onnx_opset=13, ensemble=False)
with tempfile.TemporaryDirectory(dir=sys.argv[1]) as made:
    gen.create_models(made, numpy.float32, ([1], [8]), ([1, 1, 1], [4, 1, 2]))
    flat = ([2, 2, 4], [1, 2, 1], [3, 2, 2], [1, 1, 1])
    gen.create_models(made, numpy.float32, ([4, 4], [2], [2, 2, 3], [1]), flat, flat, flat)
    for name in os.listdir(made):
        config = open(f"{made}/{name}/config.pbtxt").read().replace('"onnx_', '"plan_')
        open(f"{made}/{name}/config.pbtxt", "w").write(config)
        os.rename(f"{made}/{name}", f"{sys.argv[1]}/{name.replace('onnx_', 'plan_', 1)}")
END
# Where the tests want a model of a library that is not here, one of ONNX has its name.
for folder in "$target"/*/onnx_* "$target"/*/*/*_onnx_*; do
  for other in plan openvino libtorch; do
    name=$(basename "$folder")
    copy=$(dirname "$folder")/${name/onnx_/${other}_}
    [ ! -d "$folder" ] || [ -d "$copy" ] || {
      cp -r "$folder" "$copy" && sed -i "s/onnx_\([a-z0-9_]*\)\"/${other}_\1\"/" "$copy/config.pbtxt"
    }
  done
done
# The outputs of those of PyTorch have other names.
sed -i '/model_name: "libtorch_/,/^    }/s/key: "OUTPUT\([01]\)"/key: "OUTPUT__\1"/' \
  "$target"/qa_ensemble_model_repository/qa_model_repository/*libtorch_*/config.pbtxt 2>/dev/null
# There is no GPU, and no library but ONNX Runtime's.
find "$target" -name config.pbtxt -exec sed -i 's/KIND_GPU/KIND_CPU/' {} +
rm -rf "$target"/qa_ensemble_model_repository/*/*{savedmodel,graphdef}*
rm -rf "$target"/*/*bf16* # ONNX Runtime computes those on GPUs only
[ $status != 0 ] || touch "$target/.done"
exit $status
