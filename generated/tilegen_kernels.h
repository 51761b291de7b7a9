// Every kernel of this folder. Define TILEGEN_NO_CUDA to leave out those that need the CUDA runtime.
#ifndef TILEGEN_KERNELS_H
#define TILEGEN_KERNELS_H

#include "c_openmp/bias_gelu_f32_c4096_x86_64_v3.h"
#include "c_openmp/gemm_bf16_nt_batched_bias_gelu_960x512x384_r6x64_x86_64_v4.h"
#include "c_openmp/gemm_bf16_tn_bias_skinny_48x252x1024_r8x3_x86_64_v4.h"
#include "c_openmp/gemm_f16_tn_1280x512x384_neon.h"
#include "c_openmp/gemm_f16_tn_128x128x32.h"
#include "c_openmp/gemm_f32_tn_960x512x384_r6x64_x86_64_v4.h"
#include "c_openmp/gemm_f32_tt_blas_960x512x384_r6x16_x86_64_v3.h"
#include "c_openmp/gemm_f32_tt_skinny_48x2048x1024_r6x16_x86_64_v3.h"
#include "c_openmp/gemm_f64_tt_residual_1280x512x192_r8x4.h"
#include "c_openmp/gemm_i8_nn_960x512x384_r6x64_x86_64_v4.h"
#include "c_openmp/rmsnorm_bf16.h"
#include "c_openmp/softmax_f32_x86_64_v4.h"
#include "c_openmp/transpose_f32_32x64.h"

#ifndef TILEGEN_NO_CUDA
#include "cuda/add_rmsnorm_bf16_v32_sm80.h"
#include "cuda/attention_bf16_d128_128x128_s2_sm90a.h"
#include "cuda/attention_bf16_d128_causal_lse_128x128_s2_sm90a.h"
#include "cuda/attention_bf16_d128_fd7bbaf_128x128_s2_sm90a.h"
#include "cuda/attention_bf16_d64_f66359b_128x64_sm80.h"
#include "cuda/attention_f16_d128_causal_lse_128x64_sm80.h"
#include "cuda/cross_entropy_f32_v32_sm80.h"
#include "cuda/gemm_bf16_tn_128x256x64_s4_c2_sm90a.h"
#include "cuda/gemm_bf16_tn_bias_gelu_128x128x64_s4_c2_pp_sm90a.h"
#include "cuda/gemm_bf16_tn_blas_128x128x32_s4_sm80.h"
#include "cuda/gemm_bf16_tn_residual_16x64x64_s10_w1_swap_k2_sm90a.h"
#include "cuda/gemm_bf16_tt_bias_gelu_128x256x32_s3_sm80.h"
#include "cuda/gemm_f16_nn_residual_128x128x32_s3_sm80.h"
#include "cuda/gemm_f16_nt_batched_64x64x64_s3_sm80.h"
#include "cuda/gemm_f16_nt_of32_batched_128x256x64_s4_sm90a.h"
#include "cuda/gemm_f16_tn_128x128x32_s3_sm80.h"
#include "cuda/gemm_f16_tn_e53fb96_128x128x32_s3_sm80.h"
#include "cuda/gemm_f32_tn_128x128x16_sm75.h"
#include "cuda/gemm_f32_tt_blas_128x128x16_sm75.h"
#include "cuda/gemm_f64_nt_batched_64x64x16_t4x4_sm80.h"
#include "cuda/gemm_i8_tn_128x128x64_s3_sm80.h"
#include "cuda/gemm_i8_tn_of16_e42ab2b_cols_f32_rows_f32_128x128x64_s3_sm80.h"
#include "cuda/gemm_tf32_tn_bias_relu_128x128x16_s3_sm80.h"
#include "cuda/layernorm_bf16_v32_sm80.h"
#include "cuda/softmax_f32_v32_sm80.h"
#include "cuda/swiglu_bf16_x4_sm80.h"
#include "cuda/transpose_bf16_q8_sm80.h"
#endif

#endif
