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
python -c 'import torch' 2>/dev/null &&
  make_models gen_qa_models.py --libtorch --models_dir="$target/qa_model_repository"
# There is no GPU, and no library but ONNX Runtime's.
find "$target" -name config.pbtxt -exec sed -i 's/KIND_GPU/KIND_CPU/' {} +
rm -rf "$target"/qa_ensemble_model_repository/*/*{plan,libtorch,savedmodel,graphdef,openvino}*
touch "$target/.done"
exit $status
