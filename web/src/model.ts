// What the server says of its models, as far as the page reads it.

/** A tensor of a configuration, as GET /v2/models/NAME/config has it. */
export interface TensorConfig {
  name: string;
  data_type: string; // "TYPE_FP32"
  dims: (number | string)[];
  format?: string;
  optional?: boolean;
  is_shape_tensor?: boolean;
  allow_ragged_batch?: boolean;
  label_filename?: string;
}

export interface ModelConfig {
  name: string;
  platform?: string;
  backend?: string;
  max_batch_size?: number;
  input?: TensorConfig[];
  output?: TensorConfig[];
  model_transaction_policy?: { decoupled?: boolean };
  sequence_batching?: Record<string, unknown>;
  ensemble_scheduling?: { step?: EnsembleStep[] };
  parameters?: Record<string, { string_value?: string }>;
  [field: string]: unknown;
}

export interface EnsembleStep {
  model_name: string;
  model_version?: number | string;
  input_map?: Record<string, string>;
  output_map?: Record<string, string>;
}

/** What GET /v2/models/NAME says. */
export interface ModelMetadata {
  name: string;
  versions?: string[];
  platform?: string;
  inputs?: { name: string; datatype: string; shape: number[] }[];
  outputs?: { name: string; datatype: string; shape: number[] }[];
}

/** A model that is ready, for the part of the page that tries it. */
export interface Model {
  name: string;
  version: string;
  config: ModelConfig;
  metadata: ModelMetadata;
  /** Where clients reach the HTTP API, without a slash at the end: "http://host:8000". */
  url: string;
  /** Whether the server asks for keys. */
  keys: boolean;
}

/**
 * pathOf is a name in a path, where the server looks names up as they stand: what a URL has as it is
 * (RFC 3986, pchar) is not escaped.
 */
export function pathOf(name: string): string {
  return encodeURIComponent(name).replace(/%(?:24|26|2B|2C|3A|3B|3D|40)/g, decodeURIComponent);
}
